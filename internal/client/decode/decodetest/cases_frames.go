package decodetest

import "strings"

func frames() []Case {
	const thing = `{"apiVersion":"v1","kind":"Thing","metadata":{"name":"n","resourceVersion":"7"}}`
	const status = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 1 (2)","reason":"Expired","code":410}`
	cases := []Case{
		usual("ADDED", frame("ADDED", thing)), usual("MODIFIED", frame("MODIFIED", thing)), usual("DELETED", frame("DELETED", thing)),
		usual("BOOKMARK", frame("BOOKMARK", thing)),
		usual("BOOKMARK that ends the initial events", frame("BOOKMARK", `{"kind":"Thing","apiVersion":"v1","metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}}}`)),
		usual("BOOKMARK with a whole object", frame("BOOKMARK", `{"kind":"Thing","apiVersion":"v1","metadata":{"resourceVersion":"7","managedFields":[1]},"spec":{"a":null},"status":{}}`)),
		usual("PartialObjectMetadata", frame("ADDED", `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"n"}}`)),
		usual("PartialObjectMetadata of old", frame("ADDED", `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1beta1","metadata":{"name":"n"}}`)),
		usual("a list as the object", frame("ADDED", list(`{"a":1}`))),
		usual("white space", " \n\t{ \"type\" :\r\n \"ADDED\" , \"object\" : "+thing+" } "),
		usual("pretty", "{\n  \"type\": \"ADDED\",\n  \"object\": {\n    \"apiVersion\": \"v1\",\n    \"kind\": \"Thing\"\n  }\n}\n"),
		usual("two on a line", frame("ADDED", thing)+frame("DELETED", thing)), usual("two on two lines", frame("ADDED", thing)+"\n"+frame("DELETED", thing)+"\n"),
		usual("CRLF", frame("ADDED", thing)+"\r\n"), usual("blank lines before it", "\n\r\n \n"+frame("ADDED", thing)),
		usual("garbage after it", frame("ADDED", thing)+"garbage"), usual("half of another after it", frame("ADDED", thing)+`{"type":"ADD`),
		exotic("ERROR with a Status", frame("ERROR", status)), exotic("ERROR with an object", frame("ERROR", thing)), exotic("ERROR without object", `{"type":"ERROR"}`), exotic("ERROR with null", frame("ERROR", `null`)),
		exotic("ERROR with an empty object", frame("ERROR", `{}`)), exotic("ERROR with a string", frame("ERROR", `"went wrong"`)),
		exotic("ADDED with a Status", frame("ADDED", status)), exotic("BOOKMARK with a Status", frame("BOOKMARK", status)), exotic("ADDED with a Status of another group", frame("ADDED", `{"kind":"Status","apiVersion":"example.com/v1"}`)),
		exotic("object first", `{"object":`+thing+`,"type":"ADDED"}`), exotic("more fields", `{"type":"ADDED","object":`+thing+`,"more":1}`), exotic("more fields before", `{"more":{"type":"DELETED"},"type":"ADDED","object":`+thing+`}`),
		exotic("a kind of its own", `{"kind":"WatchEvent","apiVersion":"v1","type":"ADDED","object":`+thing+`}`), exotic("of its group", `{"kind":"WatchEvent","apiVersion":"meta.k8s.io/v1","type":"ADDED","object":`+thing+`}`),
		exotic("another kind", `{"kind":"Thing","apiVersion":"v1","type":"ADDED","object":`+thing+`}`), exotic("a kind that is a number", `{"kind":1,"type":"ADDED","object":`+thing+`}`), exotic("an apiVersion with two solidi", `{"apiVersion":"a/b/c","type":"ADDED","object":`+thing+`}`),
		exotic("Kind that is a number", `{"type":"ADDED","object":`+thing+`,"KIND":1}`), exotic("a Status as frame", status), exotic("an object as frame", thing),
		exotic("an unknown type", frame("RENAMED", thing)), exotic("lower case", frame("added", thing)), exotic("an empty type", frame("", thing)), exotic("white space in it", frame("ADDED ", thing)), exotic("more than a type", frame("ADDEDX", thing)), exotic("a long unknown type", frame(long(5000), thing)),
		exotic("an escaped type", `{"type":"\u0041DDED","object":`+thing+`}`), exotic("an escaped key", `{"\u0074ype":"ADDED","object":`+thing+`}`),
		exotic("a type that is null", `{"type":null,"object":`+thing+`}`), exotic("a number", `{"type":1,"object":`+thing+`}`), exotic("a map", `{"type":{},"object":`+thing+`}`), exotic("no type", `{"object":`+thing+`}`), exotic("Type", `{"Type":"ADDED","object":`+thing+`}`),
		exotic("Object", `{"type":"ADDED","Object":`+thing+`}`), exotic("no object", `{"type":"ADDED"}`), exotic("no object, and a long type", `{"type":"MODIFIED"}`), exotic("an empty frame", `{}`), exotic("a frame of another field", `{"a":1}`),
		exotic("object is null", frame("ADDED", `null`)), exotic("a string", frame("ADDED", `"a"`)), exotic("a number", frame("ADDED", `1`)), exotic("a list", frame("ADDED", `[]`)), exotic("true", frame("ADDED", `true`)), exotic("empty", frame("ADDED", `{}`)),
		exotic("type twice", `{"type":"ADDED","type":"DELETED","object":`+thing+`}`), exotic("type twice, then null", `{"type":"ADDED","type":null,"object":`+thing+`}`),
		exotic("object twice", `{"type":"ADDED","object":{"kind":"A","apiVersion":"v1"},"object":`+thing+`}`), exotic("object twice, then null", `{"type":"ADDED","object":`+thing+`,"object":null}`), exotic("null first", `{"type":"ADDED","object":null,"object":`+thing+`}`),
		exotic("a frame in a frame", frame("ADDED", frame("ADDED", thing))),
		exotic("null", `null`), exotic("a number", `1 `), exotic("a string", `"ADDED"`), exotic("a list of frames", `[`+frame("ADDED", thing)+`]`), exotic("true", `true`),
		exotic("nothing", ``), exotic("white space alone", " \n"), exotic("a byte order mark", "\ufeff"+frame("ADDED", thing)), exotic("garbage", `garbage`), exotic("garbage in a brace", `{garbage`), exotic("a bracket", `]`), exotic("garbage before it", `x`+frame("ADDED", thing)),
		exotic("a comma before it", `,`+frame("ADDED", thing)), exotic("a comma at the end", `{"type":"ADDED","object":`+thing+`,}`), exotic("a broken object", frame("ADDED", `{"a":01}`)), exotic("garbage for an object", `{"type":"ADDED","object":nx`), exotic("garbage for a type", `{"type":x`),
		exotic("nested 9,990 deep", frame("ADDED", object(`"a":`+nested(9990, "")))), exotic("HTML", "<html><body>502 Bad Gateway</body></html>"), exotic("CBOR", "\xd9\xd9\xf7\xa2"), exotic("length-delimited", "\x00\x00\x00\x05hello"),
		exotic("record separators", "\x1e"+frame("ADDED", thing)+"\n"), exotic("server-sent events", "data: "+frame("ADDED", thing)+"\n\n"),
	}
	whole := frame("ADDED", thing)
	for i := range whole {
		cases = append(cases, exotic("an end after "+whole[:i], whole[:i]))
	}
	return append(cases, usual("a frame of a megabyte", frame("ADDED", object(`"data":"`+strings.Repeat("x", 1<<20)+`"`))))
}
