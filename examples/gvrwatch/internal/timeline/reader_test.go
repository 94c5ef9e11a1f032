package timeline

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/examples/internal/changes"
)

// want reports an error unless an expression in the page has a value.
func (b *browser) want(why, expression string, want any) {
	b.t.Helper()
	if n, ok := want.(int); ok {
		want = float64(n)
	}
	if diff := cmp.Diff(want, b.eval(expression)); diff != "" {
		b.t.Errorf("%s: %s (-want +got):\n%s", why, expression, diff)
	}
}

// texts is an expression for the texts of elements.
func texts(selector string) string {
	return fmt.Sprintf(`[...document.querySelectorAll(%q)].map((e) => e.textContent).join("|")`, selector)
}

func number(selector string) string {
	return fmt.Sprintf(`document.querySelectorAll(%q).length`, selector)
}

func first(selector string) string { return fmt.Sprintf(`document.querySelector(%q)`, selector) }

// harmless reports what the page has loaded, and what the browser complains about.
func (b *browser) harmless() {
	b.t.Helper()
	if len(b.requests) != 1 || !strings.HasPrefix(b.requests[0], "file://") || len(b.complaints) > 0 {
		b.t.Errorf("the page requested %q, and the browser says %q", b.requests, b.complaints)
	}
}

// night is a small recording: web was there before and changed once, then twice at the same time; job came and went;
// node, of another type, came back in the snapshot after a gap.
func night() Page {
	at := func(seconds int) time.Time { return three.Add(time.Duration(seconds) * time.Second) }
	change := func(path, old, now string) []changes.Field { return []changes.Field{{Path: path, Old: old, New: now}} }
	return Page{
		Title: "night.rec", Cluster: "https://a:6443", Selection: "pods,nodes", From: at(0), To: at(600),
		Gaps: []Gap{
			{From: at(200), To: at(260), Reason: "Nobody recorded."},
			{From: at(400), To: at(420), Type: "nodes", Reason: "Events are lost."},
		},
		Objects: []Object{
			{"pods", "shop", "web", []Mark{
				{Time: at(0), Kind: Existed},
				{Time: at(100), Kind: Changed, Fields: change("spec.replicas", "1", "2"), By: []string{"kubectl"}},
				{Time: at(300), Kind: Changed, By: []string{"kubelet"},
					Fields: change("status.phase", "Pending", "Failed")},
				{Time: at(300), Kind: Changed, Fields: change("status.reason", "", "OOMKilled")},
			}},
			{"pods", "shop", "job", []Mark{
				{Time: at(50), Kind: Created, By: []string{"cron"}},
				{Time: at(150), Kind: Deleted},
			}},
			{"nodes", "", "node", []Mark{{Time: at(420), Kind: Created, Inferred: true}}},
		},
	}
}

// TestReader does with the page what its reader does, with the mouse and the keys of a browser.
func TestReader(t *testing.T) {
	b := startBrowser(t)
	b.open(night())
	b.want("all objects, grouped", texts(".row .label"), "nodes (1)|node|pods · shop (2)|job|web")
	b.want("kinds have classes of their own", texts("#found"), "3 of 3 objects, 6 changes")
	b.want("one mark existed before", number(".mark.existed"), 1)
	b.want("two were created", number(".mark.created"), 2)
	b.want("one of them by a comparison", number(".mark.created.inferred"), 1)
	b.want("one was deleted", number(".mark.deleted"), 1)
	b.want("two changes of the same time are one mark", first(".mark.changed.count")+".textContent", "2")
	b.want("each object has a bar", number(".life"), 3)
	b.want("what existed before has a bar that began before", number(".life.before"), 1)
	b.want("what exists has a bar that goes on", number(".life.after"), 2)
	bar := first(".row[data-object='1'] .life") + ".style"
	b.want("the bar of what was deleted ends", fmt.Sprintf(
		`[parseFloat(%s.left), parseFloat(%[1]s.left) + parseFloat(%[1]s.width)].map((x) => Math.round(timeAt(x) -
		recorded.from)).join()`, bar), "50000,150000")
	b.want("a time in which nobody recorded is in every row", number(".row .gap[data-gap='0']"), 3)
	b.want("a gap of a type is in its rows", number(".row .gap[data-gap='1']"), 1)
	b.want("the axis has times", `/^03:00\|03:01\|/.test(`+texts(".tick")+`)`, true)
	b.want("and a date", first("#axis .label")+".textContent", "2026-11-27 UTC")
	b.look("night")

	b.click(first(".row[data-object='2'] .mark.changed:not(.count)"))
	b.want("a click shows what changed", texts("#details tbody td"), "spec.replicas|1|2")
	b.want("when", texts("#details time"), "2026-11-27 03:01:40.000 UTC")
	b.want("of what", texts("#details h2"), "web")
	b.want("and who did it", texts("#details .by"), "by kubectl")
	b.click(first(".mark.count"))
	b.want("a mark for several events shows each", texts("#details tbody td"),
		"status.phase|Pending|Failed|status.reason|none|OOMKilled")
	b.look("diff")
	b.click(first(".row[data-object='0'] .mark.inferred"))
	b.want("what a comparison has seen says so", `/by a comparison/.test(`+texts("#details .note")+`)`, true)
	b.click(first("#axis .gap"))
	b.want("a click on a gap shows its reason",
		`/Nobody recorded\..*all types/.test(`+texts("#details article")+`)`, true)
	b.click(first("#gaps"))
	b.want("a button shows all gaps", number("#details article"), 2)
	b.press("Escape")
	b.want("Escape closes the panel", first("#details")+".hidden", true)

	b.click(first("#search"))
	for _, c := range []struct{ why, text, want, found string }{
		{"a name", "job", "pods · shop (1)|job", "1 of 3 objects, 2 changes"},
		{"a namespace and a name", "SHOP/w", "pods · shop (1)|web", "1 of 3 objects, 3 changes"},
		{"a type", "nodes", "nodes (1)|node", "1 of 3 objects, 1 change"},
		{"a new value", "oomkilled", "pods · shop (1)|web", "1 of 3 objects, 3 changes"},
		{"a manager and a namespace", "cron shop", "pods · shop (1)|job", "1 of 3 objects, 2 changes"},
		{"what is nowhere", "OOMKilled cron", "", "0 of 3 objects, 0 changes"},
	} {
		b.eval(`element("search").select()`)
		b.write(c.text)
		b.want(c.why, texts(".row .label"), c.want)
		b.want(c.why, first("#found")+".textContent", c.found)
	}
	b.want("no row matches", texts(".empty"), "No rows match.")
	b.eval(`element("search").select()`)
	b.write("pending")
	b.want("a search in diffs marks what has the text", number(".mark.changed:not(.other)"), 1)
	b.eval(`element("search").select()`)
	b.press("Backspace")
	b.eval(`element("search").value = ""; element("search").dispatchEvent(new Event("input")); 0`)
	b.drawn()

	testKeys(b)
	testZoom(b)
	testOrders(b)
	b.harmless()
}

func testKeys(b *browser) {
	b.click(first("#all"))
	b.eval(`view.cursor = null; scroller.focus(); 0`)
	b.press("ArrowRight")
	b.want("the first arrow goes to the first row", `view.cursor.object.name`, "node")
	b.press("ArrowDown", "ArrowDown")
	b.want("arrows move between rows, to the nearest mark", `view.cursor.object.name + " " + view.cursor.mark`, "web 1")
	b.press("ArrowLeft", "ArrowRight", "ArrowRight", "ArrowLeft")
	b.want("and marks", `view.cursor.object.name + " " + view.cursor.mark`, "web 1")
	b.want("the mark is outlined", number(".mark.current"), 1)
	b.press("Enter")
	b.want("Enter shows what changed", texts("#details tbody td"), "spec.replicas|1|2")
	b.press("ArrowRight")
	b.want("the panel follows", texts("#details tbody td"), "status.phase|Pending|Failed")
	b.press("Home")
	b.want("Home is the first mark", `view.cursor.mark`, 0)
	b.press("End", "Escape", "/")
	b.want("the slash goes to the search", `document.activeElement.id`, "search")
}

const span = `Math.round((view.to - view.from) / 1000)`

func testZoom(b *browser) {
	b.eval(`scroller.focus(); 0`)
	b.press("0")
	b.want("all is in view", span, 612)
	b.press("+")
	b.want("a key zooms in", span, 306)
	b.press("-")
	b.want("and out", span, 612)
	b.click(first("#in"))
	b.want("a button zooms in", span, 306)
	before := b.eval(`view.from`)
	b.click(first("#earlier"))
	b.want("a button moves", fmt.Sprintf(`view.from < %f`, before), true)
	b.click(first("#all"))
	b.want("all is in view again", span, 612)
	row := b.at(first(".row[data-object='2'] .track"))
	b.wheel(row, -300, 2)
	b.want("Ctrl and the wheel zoom", span, 314)
	b.want("around the pointer", `Math.abs(timeAt(view.width / 2) - (whole.from + whole.to) / 2) < 2000`, true)
	b.press("0")
	b.wheel(b.at(first("#axis .track")), -300, 0)
	b.want("the wheel zooms over the times", span, 314)
	b.press("0")
	x := func(seconds int) float64 {
		return b.eval(fmt.Sprintf(`axis.lastElementChild.getBoundingClientRect().left + xOf(recorded.from + %d)`,
			seconds*1000)).(float64)
	}
	b.drag(point{x(95), row.Y}, point{x(310), row.Y})
	b.want("a drag selects a range", `Math.round((view.from - recorded.from) / 5000) + " " +
		Math.round((view.to - recorded.from) / 5000)`, "19 62")
	b.want("only what is in view is drawn", number(".row[data-object='0'] .mark"), 0)
	b.want("a drag is no click", first("#details")+".hidden", true)
	b.click(first("#busy"))
	b.want("only what changes in view", texts(".row .label"), "pods · shop (2)|job|web")
	b.look("three")
	b.click(first("#busy"))
	from := b.eval(`view.from`).(float64)
	axis := b.at(first("#axis .track"))
	b.drag(axis, point{axis.X + 100, axis.Y})
	b.want("a drag of the axis moves",
		fmt.Sprintf(`Math.round((%f - view.from) / (view.to - view.from) * view.width)`, from), 100)
	b.press("0")
}

func testOrders(b *browser) {
	for _, c := range []struct{ order, want string }{
		{"first", "jobpods · shop|webpods · shop|nodenodes"},
		{"most", "webpods · shop|jobpods · shop|nodenodes"},
		{"name", "nodes (1)|node|pods · shop (2)|job|web"},
	} {
		b.eval(`element("order").value = "` + c.order + `"; element("order").dispatchEvent(new Event("change")); 0`)
		b.drawn()
		b.want("the order "+c.order, texts(".row .label"), c.want)
	}
	b.click(first("#kinds input[value='2']"))
	b.want("changes can be hidden", number(".mark.changed"), 0)
	b.click(first("#kinds input[value='2']"))
	b.call("Emulation.setTimezoneOverride", map[string]any{"timezoneId": "Asia/Kolkata"}, nil)
	b.eval(`element("zone").value = "local"; element("zone").dispatchEvent(new Event("change")); 0`)
	b.drawn()
	b.want("times of the browser's zone", first(".tick")+".textContent", "08:30")
	b.want("and its name", first("#axis .label")+".textContent", "2026-11-27 Asia/Calcutta")
}

// TestHostileTextsStayText: no text makes an element, and each is there as it is, or with escapes.
func TestHostileTextsStayText(t *testing.T) {
	b := startBrowser(t)
	b.resize(1280, 1600)
	b.open(hostilePage())
	b.want("each object has a row", number(".row:not(.head)"), len(hostile))
	b.want("no text is an element", number("img, script:not(#data, #data + script), svg:not(#overview svg), a"), 0)
	b.want("no text is a handler", `
		[...document.querySelectorAll("*")].filter((e) => e.getAttributeNames().some((n) => n.startsWith("on"))).
		length`, 0)
	all := b.eval(texts(".row .name")).(string)
	for _, want := range []string{
		`</script><script>alert(1)</script>`, `<img src=x onerror=alert(1)>`, `a\u2028b\u2029c`,
		`a\u0000b\u001bc`, `\u202eabc\u2066`, `&lt;b&gt;`, `__proto__`,
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no row is named %q: %q", want, all)
		}
	}
	for i := range hostile {
		b.eval(fmt.Sprintf(`showGroup(objects[%d], 0, 1)`, i))
		b.drawn()
		b.want("the panel shows both events", number("#details article"), 2)
		b.want("with a field", `document.querySelector("#details .new").textContent ===
			document.querySelector("#details .old").textContent + "2"`, true)
		b.want("no text is an element in it", number("#details :is(img, script, svg, a)"), 0)
	}
	b.look("hostile")
	b.eval(`element("search").value = "<img src=x"; element("search").dispatchEvent(new Event("input")); 0`)
	b.drawn()
	b.want("they can be searched", first("#found")+".textContent", "1 of 16 objects, 2 changes")
	b.harmless()
}

// TestManyRows: what is in the document does not grow with the recording.
func TestManyRows(t *testing.T) {
	b := startBrowser(t)
	for _, c := range []struct{ objects, events, changes int }{{800, 10_000, 9_500}, {5_000, 100_000, 99_375}} {
		size := b.open(many(c.objects, c.events))
		t.Logf("%d events: %.1f MB, drawn %.0f ms after the navigation", c.events, float64(size)/1e6,
			b.eval(`new Promise((done) => requestAnimationFrame(() => done(performance.now())))`))
		found := strings.Replace(b.eval(first("#found")+".textContent").(string), ",", "", -1)
		if want := fmt.Sprintf("%d of %d objects %d changes", c.objects, c.objects, c.changes); found != want {
			t.Errorf("want %s, got %s", want, found)
		}
		b.want("some rows are in the document", number(".row")+` > 20 && `+number(".row")+` < 60`, true)
		b.want("and some elements", number("*")+` < 4000`, true)
		b.eval(`scroller.scrollTop = 1e9; 0`)
		b.drawn()
		b.drawn()
		b.want("the last row is there after scrolling", first(".row:last-child")+`.textContent.includes(
			objects[objects.length - 1].name)`, true)
		b.want("some rows are in the document", number(".row")+` < 60`, true)
		b.look(fmt.Sprint("many-", c.events))
	}
	b.harmless()
}

// TestNarrowAndDark: the page fits what it is shown in.
func TestNarrowAndDark(t *testing.T) {
	b := startBrowser(t)
	b.resize(400, 700)
	b.call("Emulation.setEmulatedMedia", map[string]any{
		"features": []map[string]string{{"name": "prefers-color-scheme", "value": "dark"}}}, nil)
	b.open(night())
	b.click(first(".mark.count"))
	b.want("nothing is wider than the window", `document.documentElement.scrollWidth`, 400)
	b.want("rows are in view", `scroller.clientHeight > 60`, true)
	b.want("the panel is below", `details.getBoundingClientRect().top >= scroller.getBoundingClientRect().bottom`, true)
	b.want("it is dark", `getComputedStyle(document.body).backgroundColor`, "rgb(22, 24, 28)")
	b.look("narrow")
	b.resize(1280, 800)
	b.drawn()
	b.look("dark")
	b.call("Emulation.setEmulatedMedia", map[string]any{"media": "print"}, nil)
	b.want("tools are not printed", `getComputedStyle(element("tools")).display`, "none")
	b.want("but the title is", `element("summary").textContent`,
		"cluster https://a:6443 · pods,nodes · 2026-11-27 03:00:00 to 2026-11-27 03:10:00 UTC · "+
			"3 objects: 2 created, 3 changed, 1 deleted, 1 existed before · 2 gaps")
}

// TestLives: the bar of an object is as long as it is known to exist.
func TestLives(t *testing.T) {
	b := startBrowser(t)
	b.open(Page{From: at(0), To: at(100), Gaps: []Gap{{From: at(50), To: at(60), Forgets: true}}})
	for _, c := range []struct{ why, times, kinds, want string }{
		{"it existed before and after", "1", "EXISTED", "before - to 50 after"},
		{"it was created, deleted and created", "10,20,30", "CREATED,DELETED,CREATED", "10 to 20, 30 to 50 after"},
		{"it was changed and deleted", "10,20", "CHANGED,DELETED", "before - to 20"},
		{"nothing but its removal is known", "10", "DELETED", "before - to 10"},
		{"it was seen again", "1,70", "EXISTED,EXISTED", "before - to 50 after, before 60 to + after"},
		{"it was not seen before", "70,80", "EXISTED,CHANGED", "before 60 to + after"},
		{"it was created later", "70,80", "CREATED,CHANGED + INFERRED", "70 to + after"},
	} {
		b.want(c.why, fmt.Sprintf(`(() => {
			const text = (t) => Math.abs(t) === Infinity ? (t < 0 ? "-" : "+") : (t - recorded.from) / 1000;
			return livesOf([%s].map((t) => recorded.from + 1000 * t), [%s]).map((l) =>
				(l.before ? "before " : "") + text(l.from) + " to " + text(l.to) +
				(l.after ? " after" : "")).join(", ");
		})()`, c.times, c.kinds), c.want)
	}
}

func TestNoEvents(t *testing.T) {
	b := startBrowser(t)
	b.open(Page{Title: "empty.rec", From: three, To: three})
	b.want("the page says so", texts(".empty"), "No events were recorded.")
	b.harmless()
}
