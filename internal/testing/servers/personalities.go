package servers

import (
	"errors"
	"hash/fnv"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// All returns every personality, each for one server.
func All() []Personality {
	return []Personality{
		{Name: "no rule"},
		Unordered(), UnorderedLists(), StaleLists(5), GreatestItem(), RestartsWatches(0), NoListVersion(),
		WebhookDown("g"),
		IgnoresTimeout(30 * time.Second), Drips(200), Gateway(), EmptyPages(4), Namesakes("two", "one"),
	}
}

// MaxLowered is by how much Unordered lowers a version at most.
const MaxLowered = 9

// Unordered lowers the versions of each object by a number of its own. So those of one object grow, but a new object
// may have a version at or below earlier ones, as with clocks of several machines or a counter for each object.
func Unordered() Personality {
	return Personality{Name: "unordered", Object: func(metadata map[string]any) {
		if v := versionOf(metadata); v > 0 {
			uid, _ := metadata["uid"].(string)
			h := fnv.New32a()
			_, _ = io.WriteString(h, uid)
			setVersion(metadata, max(v-int64(h.Sum32()%(MaxLowered+1)), 1))
		}
	}}
}

// UnorderedLists is Unordered with lists that have the greatest version of their objects.
func UnorderedLists() Personality {
	return Personality{Name: "unordered lists", Object: Unordered().Object, List: GreatestItem().List}
}

// StaleLists is a server whose lists have the newest objects, and a version that is older.
func StaleLists(by int64) Personality {
	return Personality{Name: "stale list versions", List: func(l *List) error {
		if v := versionOf(l.Metadata()); v > 0 {
			setVersion(l.Metadata(), max(v-by, 1))
		}
		return nil
	}}
}

// GreatestItem is a server whose lists have the greatest version of their objects. When the newest object is deleted,
// that version sinks.
func GreatestItem() Personality {
	return Personality{Name: "version of the greatest item", List: func(l *List) error {
		greatest := int64(0)
		for _, o := range l.Everything() {
			greatest = max(greatest, versionOf(metadataOf(o)))
		}
		if greatest > 0 {
			setVersion(l.Metadata(), greatest)
		}
		return nil
	}}
}

// RestartsWatches is a server whose watches begin with ADDED of all that exists, whatever version they are given, if at
// least so many of the objects are not newer than that: only they show it.
func RestartsWatches(least int) Personality {
	return Personality{Name: "restarts watches", Answer: func(w http.ResponseWriter, r *http.Request,
		behind http.Handler) bool {
		q := r.URL.Query()
		from, _ := strconv.ParseInt(q.Get("resourceVersion"), 10, 64)
		if !isWatch(q) || !isCollection(r.URL.Path) || from == 0 || q.Get("sendInitialEvents") == "true" {
			return false
		}
		old := 0
		for _, o := range (&front{behind: behind}).everything(r, "")() {
			if versionOf(metadataOf(o)) <= from {
				old++
			}
		}
		if old >= least {
			q.Del("resourceVersion")
			r = withQuery(r, q)
		}
		behind.ServeHTTP(w, r)
		return true
	}}
}

// NoListVersion is a server whose lists have no version, although their objects do, and which has no streaming lists.
func NoListVersion() Personality {
	return Personality{
		Name: "no list version",
		Ask: func(q url.Values) {
			if isWatch(q) {
				q.Del("sendInitialEvents")
				q.Del("resourceVersionMatch")
			}
		},
		List: func(l *List) error {
			delete(l.Metadata(), "resourceVersion")
			return nil
		},
	}
}

var errWebhook = errors.New("conversion webhook for example.com/v1alpha1, Kind=Widget failed: cannot unmarshal")

// WebhookDown is a server that cannot convert the object of a name. While it exists, a list that has it fails, and
// watches of its type are accepted and silent.
func WebhookDown(name string) Personality {
	bad := func(o map[string]any) bool { return metadataOf(o)["name"] == name }
	return Personality{
		Name: "webhook down for " + name,
		List: func(l *List) error {
			for _, o := range itemsOf(l.Body) {
				if bad(o) {
					return errWebhook
				}
			}
			return nil
		},
		Watch: func(l *List) func(*Frame) Verdict {
			silent := false
			for _, o := range l.Everything() {
				silent = silent || bad(o)
			}
			return func(fr *Frame) Verdict {
				switch {
				case fr.Type == "DELETED" && bad(fr.Object):
					return Expire // the watch cache begins again, at a newer version
				case fr.Type != "BOOKMARK" && bad(fr.Object):
					silent = true
				}
				if silent {
					return Drop
				}
				return Send
			}
		},
	}
}

// IgnoresTimeout is a server that ends no watch. After some time a watch only receives bookmarks, which do not advance.
// Initial events are complete.
func IgnoresTimeout(after time.Duration) Personality {
	return Personality{
		Name: "ignores timeoutSeconds",
		Ask: func(q url.Values) {
			if isWatch(q) {
				q.Set("timeoutSeconds", "86400")
			}
		},
		Watch: func(l *List) func(*Frame) Verdict {
			at, _ := strconv.ParseInt(l.Query.Get("resourceVersion"), 10, 64)
			initial := l.Query.Get("sendInitialEvents") == "true"
			return func(fr *Frame) Verdict {
				switch v := versionOf(metadataOf(fr.Object)); {
				case initial:
					at = v
					initial = fr.Type != "BOOKMARK"
				case fr.Open < after:
					at = max(at, v)
				case fr.Type != "BOOKMARK":
					return Drop
				default:
					setVersion(metadataOf(fr.Object), max(at, 1))
				}
				return Send
			}
		},
	}
}

// Drips is a server behind a slow line.
func Drips(rate int) Personality {
	return Personality{Name: "drips " + strconv.Itoa(rate) + " bytes/s", Rate: rate}
}

// Gateway is a server behind a gateway that refuses the first two requests of each seven, with a page of HTML.
func Gateway() Personality {
	var n atomic.Int64
	codes := []int{404, 403, 400, 405, 451}
	return Personality{Name: "gateway", Answer: func(w http.ResponseWriter, _ *http.Request, _ http.Handler) bool {
		i := int(n.Add(1) - 1)
		if i%7 > 1 {
			return false
		}
		code := codes[i%len(codes)]
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, "<html><body>"+http.StatusText(code)+"</body></html>\n")
		return true
	}}
}

// EmptyPages is a server that sends some pages without objects before each page that has some. The token of an empty
// page is "empty N VERSION TOKEN": so many pages later the one at the token.
func EmptyPages(pages int) Personality {
	answer := func(w http.ResponseWriter, r *http.Request, behind http.Handler) bool {
		q := r.URL.Query()
		if limit := q.Get("limit"); isWatch(q) || !isCollection(r.URL.Path) || limit == "" || limit == "1" {
			return false
		}
		left, version, token := pages, "", q.Get("continue")
		if rest, ok := strings.CutPrefix(token, "empty "); ok {
			parts := strings.SplitN(rest, " ", 3)
			left, _ = strconv.Atoi(parts[0])
			version, token = parts[1], parts[2]
		}
		if token == "" && version != "" {
			q.Set("resourceVersion", version)
			q.Set("resourceVersionMatch", "Exact")
		}
		q.Set("continue", token)
		page := record(behind, withQuery(r, q))
		data := page.Body.Bytes()
		var list map[string]any
		if left > 0 && unmarshal(data, &list) == nil && list["items"] != nil {
			m := metadataOf(list)
			list["items"] = []any{}
			m["continue"] = strings.Join([]string{"empty", strconv.Itoa(left - 1),
				strconv.FormatInt(versionOf(m), 10), token}, " ")
			data = mustMarshal(list)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(page.Code)
		_, _ = w.Write(data)
		return true
	}
	return Personality{Name: "empty pages", Answer: answer}
}

// Namesakes is a server that shows the objects of one namespace as if they were in another, as one that shows several
// clusters: objects of the same name exist at the same time, with different uids.
func Namesakes(of, as string) Personality {
	return Personality{Name: "namesakes", Object: func(metadata map[string]any) {
		if metadata["namespace"] == of {
			metadata["namespace"] = as
		}
	}}
}

// versionOf returns the resourceVersion, or 0 if it is no number.
func versionOf(metadata map[string]any) int64 {
	text, _ := metadata["resourceVersion"].(string)
	v, _ := strconv.ParseInt(text, 10, 64)
	return v
}

func setVersion(metadata map[string]any, v int64) {
	metadata["resourceVersion"] = strconv.FormatInt(v, 10)
}
