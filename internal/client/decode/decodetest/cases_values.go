package decodetest

import "strings"

func numbers() []Case {
	return []Case{
		usual("zero", `0`), usual("an int", `42`), usual("a negative int", `-7`),
		usual("minus zero is the int 0", `-0`),
		usual("minus zero with a point stays negative", `-0.0`),
		usual("minus zero with an exponent stays negative", `-0e0`),
		usual("a point makes a float of an int", `1.0`),
		usual("an exponent makes a float of an int", `1e3`),
		usual("a negative exponent", `100e-2`), usual("E and +", `1E+3`),
		usual("a fraction", `0.3333333333333333`), usual("more digits than a float64 has", `0.33333333333333333333333333333333333`),
		usual("the biggest int64", `9223372036854775807`), usual("the smallest int64", `-9223372036854775808`),
		usual("just over int64", `9223372036854775808`), usual("just under int64", `-9223372036854775809`),
		usual("the biggest uint64", `18446744073709551615`),
		usual("an int of 30 digits", `123456789012345678901234567890`),
		usual("an int that a float64 can't tell from the next", `9007199254740993`),
		usual("and as a float", `9007199254740993.0`),
		usual("halfway between two float64s", `9007199254740993.5`),
		usual("an int of 300 digits", `1`+strings.Repeat("0", 299)),
		usual("an int of 309 digits", `1`+strings.Repeat("0", 308)),
		exotic("an int that is too big for a float64", `1`+strings.Repeat("0", 309)),
		usual("the biggest float64", `1.7976931348623157e308`),
		exotic("over the biggest float64", `1.7976931348623159e308`),
		exotic("far over the biggest float64", `1e400`), exotic("far under", `-1e400`),
		usual("the smallest float64", `5e-324`), usual("rounds to zero", `1e-400`), usual("rounds to minus zero", `-1e-400`),
		usual("a zero with a big exponent", `0e999999999999`),
		usual("an exponent with zeros", `1e0000000000000000000000000001`),
		usual("a fraction of 2,000 digits", `0.`+strings.Repeat("123456789", 222)),
		usual("as long as strings that are kept", strings.Repeat("1", 64)), usual("a byte longer", strings.Repeat("1", 65)),
		exotic("a leading zero", `01`), exotic("a leading zero after minus", `-01`), exotic("a leading plus", `+1`),
		exotic("no digit before the point", `.5`), exotic("no digit after it", `5.`), exotic("none before the exponent", `5.e1`),
		exotic("none in the exponent", `1e`), exotic("only a sign there", `1e+`), exotic("minus alone", `-`),
		exotic("hexadecimal", `0x10`), exotic("octal", `0o7`), exotic("binary", `0b1`), exotic("underscores", `1_000`),
		exotic("infinity", `Infinity`), exotic("minus infinity", `-Infinity`), exotic("no number", `NaN`), exotic("inf", `-inf`),
		exotic("two minus", `--1`), exotic("two points", `1.2.3`), exotic("two exponents", `1e2e3`),
		exotic("fullwidth digits", "１"),
	}
}

func texts() []Case {
	return []Case{
		usual("an empty string", `""`), usual("a space", `" "`),
		usual("all short escapes", `"\"\\\/\b\f\n\r\t"`), usual("a solidus without escape", `"a/b"`),
		usual("an escape at the end", `"a\\"`), usual("a quote before the end", `"a\""`), usual("escapes before the end", `"\\\\\""`),
		usual("an escaped ASCII letter", `"\u0041"`), usual("lower and upper case", `"\u00e9\u00E9"`),
		usual("NUL", `"a\u0000b"`), usual("as client-go escapes HTML", `"\u003cb\u003e \u0026 \u003c/b\u003e"`),
		usual("line separators", `"\u2028\u2029"`), usual("line separators unescaped", "\"\u2028\u2029\""),
		usual("DEL", "\"\x7f\""), usual("U+FFFD", "\"\ufffd\""), usual("escaped U+FFFD", `"\ufffd"`),
		usual("noncharacters", "\"\uffff\ufffe\""), usual("U+10FFFF", "\"\U0010ffff\""),
		usual("a byte order mark within", "\"\ufeffx\""),
		usual("emoji", `"👩‍👩‍👧 🏳️‍🌈 🇩🇪"`), usual("a combining accent is not normalised", "\"e\u0301 \u00e9\""),
		usual("a surrogate pair", `"\ud83d\ude00"`), usual("in upper case", `"\uD83D\uDE00"`),
		usual("a high surrogate alone", `"\ud83d"`), usual("a low one alone", `"\ude00"`),
		usual("in the wrong order", `"\ude00\ud83d"`), usual("two high, one low", `"\ud83d\ud83d\ude00"`),
		usual("a high one before a letter", `"\ud83dx"`), usual("before another escape", `"\ud83d\n"`),
		usual("before an escaped letter", `"\ud83d\u0041"`), usual("before an escaped backslash and u", `"\ud83d\\ude00"`),
		usual("before half an escape's worth of text", `"\ud83dude00"`), usual("before NUL", `"\ud83d\u0000"`),
		usual("before the end of the text", `"a\ud83d"`), usual("the last surrogates", `"\udbff\udfff"`),
		usual("before and after the surrogates", `"\ud7ff\ue000"`),
		usual("a continuation byte alone", "\"a\x80b\""), usual("four of them", "\"\x80\x81\x82\x83\""),
		usual("a rune that ends early", "\"\xe4\xb8\""), usual("before ASCII", "\"\xe4\xb8x\""), usual("before an escape", "\"\xe4\\n\""),
		usual("before another rune", "\"\xe4\xb8é\""), usual("overlong NUL", "\"\xc0\x80\""), usual("overlong solidus", "\"\xe0\x80\xaf\""),
		usual("an encoded surrogate", "\"\xed\xa0\xbd\""), usual("an encoded surrogate pair", "\"\xed\xa0\xbd\xed\xb8\x80\""),
		usual("over U+10FFFF", "\"\xf4\x90\x80\x80\""), usual("bytes that are never UTF-8", "\"\xfe\xff\xf8\""),
		usual("Latin-1", "\"caf\xe9\""), usual("bad bytes after an escape", "\"\\t\xff\""), usual("bad bytes at places of eight", "\"1234567\xff12345678\xff\""),
		usual("looks like a number", `"42"`), usual("looks like null", `"null"`), usual("looks like JSON", `"{\"a\":[1,2]}"`),
		exotic("a newline", "\"a\nb\""), exotic("a tab", "\"a\tb\""), exotic("NUL unescaped", "\"a\x00b\""), exotic("0x1f", "\"\x1f\""),
		exotic("a control character in the eighth place", "\"1234567\x01\""), exotic("after a rune", "\"é\x01\""), exotic("after a backslash", "\"\\\n\""),
		exotic("an escape that is none", `"\x41"`), exotic("an escaped quote of the other kind", `"\'"`), exotic("an escaped zero", `"\0"`),
		exotic("an escaped rune", `"\é"`), exotic("upper case U", `"\U0041"`), exotic("an upper case escape", `"\N"`),
		exotic("three digits", `"\u004"`), exotic("three digits before text", `"\u004g"`), exotic("a sign", `"\u+041"`), exotic("a space", `"\u 041"`),
		exotic("a pair of which half is broken", `"\ud83d\ude0"`), exotic("a pair of which half is broken in the middle", `"\ud83d\uzzzz"`),
		exotic("apostrophes", `'a'`), exotic("no quotes", `a`), exotic("no end", `"a`), exotic("an end that is escaped", `"a\"`), exotic("only a backslash", `"\`),
	}
}

func structures() []Case {
	return []Case{
		usual("true", `true`), usual("false", `false`), usual("null", `null`),
		usual("an empty map", `{}`), usual("an empty list", `[]`), usual("with white space", "{ \t\r\n}"), usual("a list with white space", "[ \t\r\n]"),
		usual("white space everywhere", " \n{ \t\"a\" \r:\n [ 1 ,\t2 , { } ] , \"b\" : { \"c\" : null } } \n"),
		usual("nulls in a list", `[null,null]`), usual("all types in a list", `[1,1.5,"1",true,false,null,{},[],[[]],[{}]]`),
		usual("an empty key", `{"":1}`), usual("keys that differ in case", `{"a":1,"A":2}`), usual("a repeated key", `{"a":1,"a":2}`),
		usual("repeated, of another type", `{"a":{"b":1},"a":[2]}`), usual("repeated, then null", `{"a":{"b":1},"a":null}`),
		usual("repeated maps are not merged", `{"a":{"b":1},"a":{"c":2}}`), usual("repeated lists are not merged", `{"a":[1,2,3],"a":[4]}`),
		usual("repeated far apart", `{"a":1,"b":{"a":2},"c":[{"a":3},{"a":4,"a":5}],"a":6}`),
		usual("repeated, once escaped", `{"a":1,"\u0061":2}`), usual("repeated empty keys", `{"":1,"":2}`),
		usual("bad UTF-8 in keys makes them equal", "{\"\xff\":1,\"\xfe\":2,\"\ufffd\":3}"), usual("surrogates in keys make them equal", `{"\ud800":1,"\udc00":2}`),
		usual("escapes in keys", `{"a\"b\\c\/d\n\u00e9":1}`), usual("keys of other scripts", `{"ключ":"значение","🔑":1}`),
		usual("prototypes", `{"__proto__":{"a":1},"constructor":2}`), usual("keys of objects further down", `{"kind":1,"Kind":2,"apiVersion":[],"items":{},"metadata":null,"type":"ADDED","object":{}}`),
		usual("lists nested 200 deep", nested(200, "")), usual("maps nested 200 deep", nestedMaps(200, "1")),
		exotic("nested 490 deep", nested(490, "1")), exotic("nested 500 deep", nested(500, "1")), exotic("nested 600 deep", nestedMaps(600, "null")),
		exotic("nested 9,990 deep", nested(9990, "")), exotic("9,997", nested(9997, "")), exotic("9,998", nested(9998, "")), exotic("9,999", nested(9999, "")),
		exotic("10,000", nested(10000, "")), exotic("10,001", nested(10001, "")), exotic("maps nested 10,001 deep", nestedMaps(10001, "1")),
		exotic("many brackets and no end", strings.Repeat("[", 100000)), exotic("many maps and no end", strings.Repeat(`{"a":`, 100000)),
	}
}

func brokenValues() []Case {
	return []Case{
		exotic("nothing", ``), exotic("white space alone", ` `),
		exotic("a comma at the end of a map", `{"a":1,}`), exotic("of a list", `[1,]`), exotic("a comma at the beginning", `[,1]`), exotic("of a map", `{,"a":1}`),
		exotic("two commas", `[1,,2]`), exotic("no comma", `[1 2]`), exotic("no comma in a map", `{"a":1 "b":2}`), exotic("no colon", `{"a" 1}`),
		exotic("two colons", `{"a"::1}`), exotic("no value", `{"a":}`), exotic("no key", `{:1}`), exotic("a key that is a number", `{1:2}`),
		exotic("a key that is null", `{null:2}`), exotic("a key without quotes", `{a:2}`), exotic("a key without an end", `{"a:2}`),
		exotic("the other bracket", `[1}`), exotic("the other bracket of a map", `{"a":1]`), exotic("one bracket too many", `[1]]`), exotic("one too few", `[[1]`),
		exotic("true in upper case", `TRUE`), exotic("null in upper case", `Null`), exotic("half of true", `tru`), exotic("more than true", `truee`), exotic("true and a digit", `true1`),
		exotic("undefined", `undefined`), exotic("a comment", `/* a */1`), exotic("a comment at the end", "1//a\n"),
		exotic("a form feed", "\f1"), exotic("a no-break space", "\u00a01"), exotic("a byte order mark", "\ufeff1"), exotic("NUL", "\x001"), exotic("NUL after it", "1\x00"),
		exotic("a broken value under a key that comes again", `{"a":01,"a":1}`), exotic("a number out of range under a key that comes again", `{"a":1e999,"a":1}`),
	}
}

// lengths are around what is kept, put into blocks, and read eight bytes at a time.
func lengths() []Case {
	var cases []Case
	for _, n := range []int{1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 63, 64, 65, 255, 256, 511, 512, 513, 4095, 4096, 4097, 65535, 65536, 65537} {
		s := long(n)
		cases = append(cases,
			usual("a string of a length", `"`+s+`"`),
			usual("a key of a length", `{"`+s+`":1}`),
			usual("strings and keys of a length, again and again", `[{"`+s+`":"`+s+`"},{"`+s+`":"`+s+`"},{"`+s+`":"`+s+`"},{"`+s+`":"`+s+`x"}]`),
			usual("an escape after a length", `"`+s+`\n`+s+`"`),
			usual("a rune after a length", `"`+s+`é`+s+`"`))
	}
	return append(cases, usual("a string of a megabyte", `"`+long(1<<20)+`"`), usual("a megabyte of escapes", `"`+strings.Repeat(`\n`, 1<<19)+`"`),
		usual("10,000 strings", `[`+strings.Repeat(`"abcdefgh",`, 9999)+`""]`), usual("10,000 maps", `[`+strings.Repeat(`{"a":1},`, 9999)+`{}]`))
}
