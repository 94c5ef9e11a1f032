// rows.js: draws what is in view, and nothing else: a page of thousands of rows has some tens of them in the document.
// Texts of servers become textContent or an attribute by setAttribute, never HTML.

const ROW = 22; // pixels of a row, as in page.css
const MARK = 16; // pixels within which marks become one with a count

const element = (id) => document.getElementById(id);
const scroller = element("rows"), sheet = element("sheet");
const axis = element("axis"), overview = element("overview");

// printable returns a text in which characters that are not seen, or that reorder others, are escapes.
function printable(text) {
	return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}]/gu,
		(c) => "\\u" + (c.codePointAt(0) > 0xffff ? "{" + c.codePointAt(0).toString(16) + "}"
			: c.codePointAt(0).toString(16).padStart(4, "0")));
}

function make(tag, className, text) {
	const e = document.createElement(tag);
	if (className) e.className = className;
	if (text !== undefined) e.textContent = printable(text);
	return e;
}

const whole = { from: recorded.from, to: recorded.to };
{
	const margin = Math.max((whole.to - whole.from) * 0.01, 500);
	whole.from -= margin;
	whole.to += margin;
}

const view = {
	from: whole.from, to: whole.to, // the times in view
	shown: [true, true, true, true], // by kind
	rows: [], kept: objects, found: search(""), // see list
	cursor: null, // { object, mark }: where the arrow keys are
	width: 1, // pixels of a track
};

function xOf(t) { return (t - view.from) / (view.to - view.from) * view.width; }
function timeAt(x) { return view.from + x / view.width * (view.to - view.from); }

// place puts an element between two times, as far as they are in view. It returns false if nothing of it is.
function place(e, from, to, least) {
	const left = Math.max(xOf(from), -2), right = Math.min(xOf(to), view.width + 2);
	if (right < 0 || left > view.width || right < left) return false;
	e.style.left = left + "px";
	e.style.width = Math.max(right - left, least) + "px";
	return true;
}

// groupsOf returns the marks of an object in view: those that would overlap are one group, from mark first to last.
function groupsOf(object) {
	const { times, kinds, change } = object;
	const groups = [];
	let group = null, begin = 0;
	for (let i = firstAt(times, timeAt(-MARK)); i < times.length; i++) {
		const kind = kindOf(kinds[i]);
		if (!view.shown[kind]) continue;
		const x = xOf(times[i]);
		if (x > view.width + MARK) break;
		if (group === null || x - begin >= MARK) {
			begin = x;
			groups.push((group = { first: i, last: i, count: 0, kinds: 0, hit: false, object, x }));
		}
		group.last = i;
		group.count++;
		group.kinds |= 1 << kind;
		group.hit = group.hit || view.found.hits[change[i]] === 1;
		group.x = (begin + x) / 2;
	}
	return groups;
}

// classOf returns the shape of a group: that of its kind, or the one for several kinds.
function classOf(group) {
	const one = KINDS.findIndex((_, kind) => group.kinds === 1 << kind);
	return one >= 0 ? KINDS[one] : "several";
}

function drawGroup(group) {
	const { object, first, count } = group;
	const e = make("span", "mark " + classOf(group));
	e.style.left = group.x + "px";
	e.dataset.object = object.index;
	e.dataset.first = first;
	e.dataset.last = group.last;
	e.setAttribute("role", "img");
	let label = KINDS.filter((_, kind) => group.kinds & 1 << kind).join(", ") + " " + timeText(object.times[first]);
	if (count > 1) {
		e.classList.add("count");
		e.textContent = count < 1000 ? count : Math.trunc(count / 1000) + "k";
		e.dataset.count = count;
		label = count + " events: " + label;
	} else if (object.kinds[first] & INFERRED) {
		e.classList.add("inferred");
		label += " or earlier";
	}
	if (view.found.inDiff[object.index] && !group.hit) e.classList.add("other");
	const c = view.cursor;
	if (c && c.object === object && first <= c.mark && c.mark <= group.last) {
		e.classList.add("current");
		e.id = "current";
		scroller.setAttribute("aria-activedescendant", "current");
	}
	e.setAttribute("aria-label", label);
	e.title = label;
	return e;
}

// drawGaps draws those of the gaps that are not within what is drawn: there may be thousands.
function drawGaps(track, some, x) {
	let end = -Infinity;
	for (const gap of some) {
		const left = Math.max(x(gap.from), -2), right = Math.min(Math.max(x(gap.to), left + 3), view.width + 2);
		if (right < 0 || left > view.width || right <= end + 1) continue;
		end = right;
		const e = make("div", "gap");
		e.style.left = left + "px";
		e.style.width = right - left + "px";
		e.dataset.gap = gap.index;
		e.title = printable(gap.reason);
		track.append(e);
	}
}

function drawRow(row, index, ordered) {
	const e = make("div", row.object ? "row" : "row head");
	e.style.top = index * ROW + "px";
	if (!row.object) {
		e.append(make("div", "label", row.head + " (" + row.count + ")"));
		return e;
	}
	const { object } = row;
	e.dataset.object = object.index;
	const label = make("div", "label");
	label.append(make("bdi", "name", object.name));
	if (ordered) label.append(make("bdi", "type", object.type + (object.namespace ? " · " + object.namespace : "")));
	label.title = printable(object.full);
	const track = make("div", "track");
	drawGaps(track, gapsOf(object), xOf);
	for (const life of object.lives) {
		const bar = make("div", "life" + (life.before ? " before" : "") + (life.after ? " after" : ""));
		if (place(bar, Math.max(life.from, whole.from), Math.min(life.to, whole.to), 1)) track.append(bar);
	}
	for (const group of groupsOf(object)) track.append(drawGroup(group));
	e.append(label, track);
	return e;
}

function drawAxis() {
	const track = axis.lastElementChild, { step, times } = ticks(view.from, view.to, view.width);
	axis.firstElementChild.textContent = dateText(view.from) + " " + zoneName();
	track.replaceChildren();
	drawGaps(track, gaps.filter((gap) => !gap.type), xOf);
	times.forEach((t, i) => {
		const midnight = iso(t).endsWith("T00:00:00.000");
		const e = make("div", "tick", step >= DAY || (midnight && i > 0) ? dateText(t) : clockText(t, step));
		e.style.left = xOf(t) + "px";
		track.append(e);
	});
}

// drawOverview draws how many events of the kept rows there are over the whole time, and which part is in view.
function drawOverview() {
	const track = overview.lastElementChild, height = 32, bar = 3;
	const counts = new Float64Array(Math.max(1, Math.ceil(view.width / bar)));
	const span = whole.to - whole.from;
	for (const o of view.kept) {
		for (let i = 0; i < o.times.length; i++) {
			const kind = kindOf(o.kinds[i]);
			if (kind === EXISTED || !view.shown[kind]) continue;
			counts[Math.trunc((o.times[i] - whole.from) / span * counts.length)]++;
		}
	}
	const most = counts.reduce((a, b) => Math.max(a, b), 1);
	let path = "";
	counts.forEach((n, i) => {
		if (n > 0) path += "M" + i * bar + " " + height + "v-" + Math.max(2, n / most * height).toFixed(1);
	});
	const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
	const drawn = document.createElementNS("http://www.w3.org/2000/svg", "path");
	drawn.setAttribute("d", path);
	svg.append(drawn);
	const frame = make("div", "window");
	track.replaceChildren(svg, frame);
	const scale = view.width / span;
	drawGaps(track, gaps, (t) => (t - whole.from) * scale);
	frame.style.left = (view.from - whole.from) * scale + "px";
	frame.style.width = Math.max((view.to - view.from) * scale, 3) + "px";
}

function drawRows() {
	const first = Math.max(0, Math.trunc(scroller.scrollTop / ROW) - 2);
	const last = Math.min(view.rows.length, Math.ceil((scroller.scrollTop + scroller.clientHeight) / ROW) + 2);
	const ordered = element("order").value !== "name";
	sheet.style.height = view.rows.length * ROW + "px";
	scroller.removeAttribute("aria-activedescendant");
	const drawn = [];
	for (let i = first; i < last; i++) drawn.push(drawRow(view.rows[i], i, ordered));
	if (view.rows.length === 0) {
		drawn.push(make("p", "empty", objects.length === 0 ? "No events were recorded." : "No rows match."));
	}
	sheet.replaceChildren(...drawn);
}

// draw draws everything. Every change of the view ends with redraw, which draws once before the browser paints.
function draw() {
	const label = axis.firstElementChild.offsetWidth;
	view.width = Math.max(50, scroller.clientWidth - label);
	for (const e of [axis, overview]) e.lastElementChild.style.width = view.width + "px";
	drawAxis();
	drawOverview();
	drawRows();
}

let pending = false;
function redraw() {
	if (pending) return;
	pending = true;
	requestAnimationFrame(() => {
		pending = false;
		draw();
	});
}

const number = (n) => n.toLocaleString("en-US");
const count = (n, noun) => number(n) + " " + noun + (n === 1 ? "" : "s");

// list finds out which rows there are, and reports how many. Without a new search it keeps what was found.
function list(searched) {
	if (searched) view.found = search(element("search").value);
	const busy = element("busy").checked;
	const { rows, kept } = listRows(element("order").value, (o) => view.found.matching[o.index] === 1 &&
		(!busy || changesIn(o, view.from, view.to, view.shown)));
	view.rows = rows;
	view.kept = kept;
	const events = kept.reduce((n, o) => n + o.changed, 0);
	element("found").textContent = number(kept.length) + " of " + count(objects.length, "object") + ", " +
		count(events, "change");
	redraw();
}
