package timeline

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// browser is a headless Chromium, driven over two pipes by messages of the DevTools protocol, which end with NUL. The
// keyboard and the mouse are those of the browser, so that a click goes where a reader's would.
type browser struct {
	t       *testing.T
	in      io.Writer
	out     *bufio.Reader
	session string
	sent    int
	// requests are the URLs that pages have requested, complaints what is in the browser's log and console.
	requests, complaints []string
}

// startBrowser starts a Chromium, or skips the test where none is asked for.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	if os.Getenv("GVRWATCH_CHROMIUM") == "" {
		t.Skip("needs Chromium and GVRWATCH_CHROMIUM=1, as .ci/soak has them")
	}
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal(err)
	}
	read, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
		"--no-first-run", "--disable-dev-shm-usage", "--user-data-dir="+t.TempDir(), "about:blank")
	cmd.ExtraFiles = []*os.File{read, write} // its descriptors 3 and 4
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read.Close()
	write.Close()
	b := &browser{t: t, in: in, out: bufio.NewReader(out)}
	t.Cleanup(func() {
		in.Close() // the browser ends
		out.Close()
		_ = cmd.Wait()
	})
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Network", "Log"} {
		b.call(domain+".enable", nil, nil)
	}
	b.resize(1280, 800)
	return b
}

type message struct {
	ID     int
	Method string
	Error  *struct{ Message string }
	Result json.RawMessage
	Params struct {
		Request struct{ URL string }
		Entry   struct{ Text string }
		Args    []struct{ Value any }
		Details struct{ Text string } `json:"exceptionDetails"`
	}
}

// receive returns the next message.
func (b *browser) receive() message {
	b.t.Helper()
	text, err := b.out.ReadBytes(0)
	if err != nil {
		b.t.Fatalf("the browser has ended: %v", err)
	}
	var m message
	if err := json.Unmarshal(text[:len(text)-1], &m); err != nil {
		b.t.Fatalf("%v: %.200s", err, text)
	}
	switch m.Method {
	case "Network.requestWillBeSent":
		b.requests = append(b.requests, m.Params.Request.URL)
	case "Log.entryAdded":
		b.complaints = append(b.complaints, m.Params.Entry.Text)
	case "Runtime.consoleAPICalled":
		b.complaints = append(b.complaints, fmt.Sprint(m.Params.Args))
	case "Runtime.exceptionThrown":
		b.complaints = append(b.complaints, m.Params.Details.Text)
	}
	return m
}

// call calls a method and waits for its result.
func (b *browser) call(method string, params, result any) {
	b.t.Helper()
	b.sent++
	request := map[string]any{"id": b.sent, "method": method}
	if params != nil {
		request["params"] = params
	}
	if b.session != "" {
		request["sessionId"] = b.session
	}
	text, err := json.Marshal(request)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.in.Write(append(text, 0)); err != nil {
		b.t.Fatal(err)
	}
	for {
		m := b.receive()
		if m.ID != b.sent {
			continue
		}
		if m.Error != nil {
			b.t.Fatalf("%s: %s", method, m.Error.Message)
		}
		if result != nil {
			if err := json.Unmarshal(m.Result, result); err != nil {
				b.t.Fatal(err)
			}
		}
		return
	}
}

func (b *browser) resize(width, height int) {
	b.call("Emulation.setDeviceMetricsOverride",
		map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
}

// open writes a page to a file, opens it, and waits until it is drawn.
func (b *browser) open(p Page) (size int) {
	b.t.Helper()
	path := filepath.Join(b.t.TempDir(), "page.html")
	f, err := os.Create(path)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := Write(f, p); err != nil {
		b.t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		b.t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		b.t.Fatal(err)
	}
	b.requests, b.complaints = nil, nil
	b.call("Page.navigate", map[string]any{"url": "file://" + path}, nil)
	for b.receive().Method != "Page.loadEventFired" {
	}
	b.drawn()
	return int(info.Size())
}

// eval returns the value of an expression, or of a promise, in the page.
func (b *browser) eval(expression string) any {
	b.t.Helper()
	var r struct {
		Result  struct{ Value any }
		Details *struct {
			Exception struct{ Description string }
		} `json:"exceptionDetails"`
	}
	b.call("Runtime.evaluate", map[string]any{
		"expression": expression, "awaitPromise": true, "returnByValue": true}, &r)
	if r.Details != nil {
		b.t.Fatalf("%s: %s", expression, r.Details.Exception.Description)
	}
	return r.Result.Value
}

// drawn waits until the page has drawn what it was asked for.
func (b *browser) drawn() {
	b.t.Helper()
	b.eval(`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
}

type point struct{ X, Y float64 }

// at returns the middle of the element that an expression has.
func (b *browser) at(expression string) (p point) {
	b.t.Helper()
	xy := b.eval(`(() => { const r = (` + expression + `).getBoundingClientRect();
		return [r.left + r.width / 2, r.top + r.height / 2]; })()`).([]any)
	return point{xy[0].(float64), xy[1].(float64)}
}

func (b *browser) mouse(kind string, at point, more map[string]any) {
	b.t.Helper()
	params := map[string]any{"type": kind, "x": at.X, "y": at.Y, "button": "left", "clickCount": 1}
	for k, v := range more {
		params[k] = v
	}
	b.call("Input.dispatchMouseEvent", params, nil)
}

func (b *browser) click(expression string) {
	b.t.Helper()
	at := b.at(expression)
	b.mouse("mousePressed", at, nil)
	b.mouse("mouseReleased", at, nil)
	b.drawn()
}

func (b *browser) drag(from, to point) {
	b.t.Helper()
	b.mouse("mousePressed", from, map[string]any{"buttons": 1})
	for i := 1.0; i <= 4; i++ {
		b.mouse("mouseMoved", point{from.X + (to.X-from.X)*i/4, from.Y + (to.Y-from.Y)*i/4},
			map[string]any{"buttons": 1})
	}
	b.mouse("mouseReleased", to, nil)
	b.drawn()
}

func (b *browser) wheel(at point, deltaY float64, modifiers int) {
	b.t.Helper()
	b.mouse("mouseWheel", at, map[string]any{"deltaX": 0, "deltaY": deltaY, "modifiers": modifiers})
	b.drawn()
}

// press presses keys, such as "ArrowLeft", or "Shift+ArrowLeft".
func (b *browser) press(keys ...string) {
	b.t.Helper()
	for _, key := range keys {
		modifiers := 0
		if len(key) > 6 && key[:6] == "Shift+" {
			key, modifiers = key[6:], 8
		}
		text := ""
		if len(key) == 1 {
			text = key
		}
		b.call("Input.dispatchKeyEvent", map[string]any{
			"type": "keyDown", "key": key, "text": text, "modifiers": modifiers}, nil)
		b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "modifiers": modifiers}, nil)
	}
	b.drawn()
}

// write types a text into what has the focus.
func (b *browser) write(text string) {
	b.t.Helper()
	b.call("Input.insertText", map[string]any{"text": text}, nil)
	b.drawn()
}

// look writes a screenshot for people into the folder that GVRWATCH_SCREENSHOTS names, if it names one.
func (b *browser) look(name string) {
	b.t.Helper()
	folder := os.Getenv("GVRWATCH_SCREENSHOTS")
	if folder == "" {
		return
	}
	var shot struct{ Data []byte }
	b.call("Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
	if err := os.WriteFile(filepath.Join(folder, name+".png"), shot.Data, 0o600); err != nil {
		b.t.Fatal(err)
	}
}
