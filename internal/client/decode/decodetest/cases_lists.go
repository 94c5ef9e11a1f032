package decodetest

import "strings"

func lists() []Case {
	const of = `{"apiVersion":"v1","kind":"ThingList","metadata":{"resourceVersion":"7"}`
	return []Case{
		usual("no items", list(``)), usual("white space for items", list(" \n ")), usual("one that says nothing", list(`{}`)),
		usual("kinds come from the list", list(`{"metadata":{"name":"a"}},{"metadata":{"name":"b"},"spec":1}`)),
		usual("an item that says what it is", list(`{"apiVersion":"v2","kind":"Other"}`)),
		usual("one that says its kind alone", list(`{"kind":"Other"}`)), usual("its apiVersion alone", list(`{"apiVersion":"v2"}`)),
		usual("one whose kind is empty", list(`{"kind":"","apiVersion":""}`)), usual("null", list(`{"kind":null,"apiVersion":null}`)), usual("a number", list(`{"kind":7,"apiVersion":[]}`)),
		usual("an item's kind that is a number with an apiVersion", list(`{"kind":7,"apiVersion":"v1"}`)),
		usual("items first", `{"items":[{"metadata":{"name":"a"}}],"metadata":{"resourceVersion":"7"},"kind":"ThingList","apiVersion":"v1"}`),
		usual("a kind that is not List", `{"apiVersion":"v1","kind":"Things","items":[{}]}`), usual("a kind that is List alone", `{"apiVersion":"v1","kind":"List","items":[{}]}`),
		usual("a kind that has List twice", `{"apiVersion":"v1","kind":"AllowListList","items":[{}]}`),
		usual("metadata of a page", `{"apiVersion":"v1","kind":"ThingList","metadata":{"resourceVersion":"7","continue":"abc","remainingItemCount":12},"items":[{}]}`),
		usual("more fields", of+`,"more":{"a":[1]},"items":[{}],"extra":null}`),
		usual("an item with items", list(`{"items":[{"kind":"x"}]}`)), usual("repeated nested keys", list(`{"spec":{"a":1,"a":2}}`)),
		usual("white space", " { \"kind\" : \"ThingList\" , \"apiVersion\" : \"v1\" , \"items\" : [ { } , { } ] } \n"),
		usual("1,000 items", list(`{}`+strings.Repeat(`,{"metadata":{"name":"n"}}`, 999))),
		usual("no apiVersion", `{"kind":"ThingList","items":[{}]}`), usual("no apiVersion and none of the item's", `{"kind":"ThingList","items":[{"kind":"Thing"}]}`),
		exotic("a null item", list(`null`)), exotic("a null item among others", list(`{"kind":"a","apiVersion":"v1"},null,{}`)),
		exotic("an item that is a number", list(`7`)), exotic("a string", list(`"a"`)), exotic("a list", list(`[]`)), exotic("true", list(`true`)), exotic("a list of objects", list(`[{}]`)),
		exotic("no items at all", of+`}`), exotic("items that are null", of+`,"items":null}`), exotic("a map", of+`,"items":{}}`), exotic("a string", of+`,"items":"a"}`), exotic("a number", of+`,"items":1}`), exotic("false", of+`,"items":false}`),
		exotic("Items", of+`,"Items":[{}]}`), exotic("ITEMS beside them", of+`,"items":[{}],"ITEMS":[1]}`), exotic("items escaped", of+`,"\u0069tems":[{}]}`),
		exotic("items twice", of+`,"items":[{"a":1},{"b":2}],"items":[{"c":3}]}`), exotic("empty the second time", of+`,"items":[{"a":1}],"items":[]}`), exotic("null the second time", of+`,"items":[{"a":1}],"items":null}`),
		exotic("null the first time", of+`,"items":null,"items":[{"a":1}]}`), exotic("a string the first time", of+`,"items":"a","items":[{}]}`),
		exotic("repeated metadata", of+`,"items":[],"metadata":{"resourceVersion":"8"}}`), exotic("repeated kind", of+`,"items":[{}],"kind":"OtherList"}`), exotic("repeated kind that is null", of+`,"items":[{}],"kind":null}`),
		exotic("a repeated item field", list(`{"spec":1,"spec":2}`)), exotic("a repeated item kind", list(`{"kind":"A","kind":"B","apiVersion":"v1"}`)), exotic("Kind of an item", list(`{"Kind":"A"}`)),
		exotic("no kind", `{"apiVersion":"v1","items":[]}`), exotic("an empty kind", `{"apiVersion":"v1","kind":"","items":[]}`), exotic("a kind that is a number", `{"apiVersion":"v1","kind":7,"items":[]}`),
		exotic("a kind that is null", `{"apiVersion":"v1","kind":null,"items":[]}`), exotic("a Kind alone", `{"apiVersion":"v1","Kind":"ThingList","items":[]}`),
		exotic("a Kind that is a number", of+`,"items":[],"Kind":7}`), exotic("an apiversion that is one", of+`,"items":[],"apiversion":7}`), exotic("a Kelvin sign", of+`,"items":[],"`+"\u212a"+`ind":7}`),
		exotic("an apiVersion that is a number", `{"apiVersion":7,"kind":"ThingList","items":[{}]}`), exotic("a map", `{"apiVersion":{},"kind":"ThingList","items":[{}]}`), exotic("null", `{"apiVersion":null,"kind":"ThingList","items":[{}]}`),
		exotic("true", `{"apiVersion":true,"kind":"ThingList","items":[{}]}`), exotic("empty", `{"apiVersion":"","kind":"ThingList","items":[{}]}`), exotic("with two solidi", `{"apiVersion":"a/b/c","kind":"ThingList","items":[{}]}`),
		exotic("with a solidus alone", `{"apiVersion":"/","kind":"ThingList","items":[{}]}`), exotic("with two alone", `{"apiVersion":"//","kind":"ThingList","items":[{}]}`),
		exotic("a Status", `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`), exotic("a Status with items", `{"kind":"Status","apiVersion":"v1","status":"Failure","items":[{}]}`),
		exotic("a Table", `{"kind":"Table","apiVersion":"meta.k8s.io/v1","columnDefinitions":[],"rows":[]}`),
		exotic("an object", `{"kind":"Thing","apiVersion":"v1","metadata":{"name":"a"}}`), exotic("null", `null`), exotic("a list of objects", `[{"kind":"Thing"}]`), exotic("an empty object", `{}`), exotic("nothing", ``),
		exotic("something after it", list(`{}`)+"x"), exotic("another after it", list(`{}`)+list(`{}`)), exotic("no end", strings.TrimSuffix(list(`{}`), "}")), exotic("no end of the items", strings.TrimSuffix(list(`{}`), "]}")),
		exotic("a comma at the end", list(`{},`)), exotic("a byte order mark", "\ufeff"+list(`{}`)), exotic("a broken item", list(`{"a":01}`)), exotic("a number out of range in an item", list(`{"a":1e999}`)),
		exotic("one in a field", of+`,"items":[],"a":1e999}`), exotic("items nested 9,990 deep", list(`{"a":`+nested(9990, "")+`}`)), exotic("9,997", list(`{"a":`+nested(9997, "")+`}`)), exotic("9,998", list(`{"a":`+nested(9998, "")+`}`)), exotic("10,001", list(nested(10001, ""))),
		exotic("a field nested 9,999 deep", of+`,"items":[],"a":`+nested(9999, "")+`}`), exotic("10,000", of+`,"items":[],"a":`+nested(10000, "")+`}`),
	}
}
