// main.js: the reader's input.

const LEAST = 10; // milliseconds in view

// zoomTo brings a range of time into view, within the recording.
function zoomTo(from, to) {
	const span = Math.min(Math.max(to - from, LEAST), whole.to - whole.from);
	const middle = (from + to) / 2;
	view.from = Math.min(Math.max(middle - span / 2, whole.from), whole.to - span);
	view.to = view.from + span;
	if (element("busy").checked) list(false);
	else redraw();
}

// zoom makes what is in view longer or shorter by a factor, around a pixel of the track.
function zoom(factor, x = view.width / 2) {
	const t = timeAt(x), span = Math.max((view.to - view.from) * factor, LEAST), share = x / view.width;
	zoomTo(t - span * share, t + span * (1 - share));
}

function pan(share) {
	const by = (view.to - view.from) * share;
	zoomTo(view.from + by, view.to + by);
}

element("in").addEventListener("click", () => zoom(0.5));
element("out").addEventListener("click", () => zoom(2));
element("all").addEventListener("click", () => zoomTo(whole.from, whole.to));
element("earlier").addEventListener("click", () => pan(-0.5));
element("later").addEventListener("click", () => pan(0.5));
element("gaps").addEventListener("click", () => showGaps(gaps));
element("gaps").textContent = "Gaps (" + gaps.length + ")";
element("gaps").disabled = gaps.length === 0;
element("search").addEventListener("input", () => list(true));
for (const id of ["order", "busy"]) {
	element(id).addEventListener("change", () => {
		scroller.scrollTop = 0;
		list(false);
	});
}
element("kinds").addEventListener("change", (event) => {
	view.shown[event.target.value] = event.target.checked;
	list(false);
});
element("zone").addEventListener("change", () => {
	utc = element("zone").value === "utc";
	hideDetails();
});
scroller.addEventListener("scroll", redraw);
new ResizeObserver(redraw).observe(scroller);

// trackX returns where the pointer is on the tracks, in pixels.
function trackX(event) { return event.clientX - axis.lastElementChild.getBoundingClientRect().left; }

for (const e of [scroller, axis, overview]) {
	e.addEventListener("wheel", (event) => {
		const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
		if (event.ctrlKey || event.metaKey || (e !== scroller && !event.shiftKey && event.deltaY !== 0)) {
			zoom(Math.exp(Math.min(Math.max(event.deltaY, -200), 200) / 300), e === overview ? undefined : trackX(event));
		} else if (sideways !== 0) {
			pan(Math.min(Math.max(sideways, -200), 200) / 600);
		} else {
			return; // the rows scroll
		}
		event.preventDefault();
	}, { passive: false });
}

// A drag over the rows or the overview selects a range, one over the axis moves. A short one is a click.
let drag = null;
const selection = make("div", "selection");
for (const e of [scroller, axis, overview]) {
	e.addEventListener("pointerdown", (event) => {
		const x = trackX(event);
		if (event.button !== 0 || x < 0 || x > view.width || event.pointerType === "touch" && e === scroller) return;
		drag = { e, begin: x, moved: false, from: view.from, to: view.to };
	});
	e.addEventListener("pointermove", (event) => {
		if (!drag || drag.e !== e) return;
		const x = Math.min(Math.max(trackX(event), 0), view.width);
		if (!drag.moved) {
			if (Math.abs(x - drag.begin) < 5) return;
			drag.moved = true; // and the click that ends the drag goes to e, which is no mark
			e.setPointerCapture(event.pointerId);
		}
		if (e === axis) {
			const by = (drag.begin - x) / view.width * (drag.to - drag.from);
			zoomTo(drag.from + by, drag.to + by);
			return;
		}
		drag.end = x;
		const chart = element("chart");
		chart.append(selection);
		selection.style.left = axis.lastElementChild.getBoundingClientRect().left - chart.getBoundingClientRect().left +
			Math.min(drag.begin, x) + "px";
		selection.style.width = Math.abs(x - drag.begin) + "px";
	});
	e.addEventListener("pointerup", () => {
		const d = drag;
		endDrag();
		if (!d || !d.moved || e === axis) return;
		const [a, b] = [Math.min(d.begin, d.end), Math.max(d.begin, d.end)];
		if (e === scroller) zoomTo(timeAt(a), timeAt(b));
		else zoomTo(wholeAt(a), wholeAt(b));
	});
	e.addEventListener("pointercancel", endDrag);
}

function endDrag() {
	drag = null;
	selection.remove();
}

function wholeAt(x) { return whole.from + x / view.width * (whole.to - whole.from); }

document.addEventListener("click", (event) => {
	const mark = event.target.closest(".mark"), gap = event.target.closest(".gap");
	if (mark) {
		const object = objects[mark.dataset.object], first = Number(mark.dataset.first);
		view.cursor = { object, mark: first };
		showGroup(object, first, Number(mark.dataset.last));
	} else if (gap) {
		showGaps([gaps[gap.dataset.gap]]);
	}
});

// shownMark returns the mark of an object at an index or behind it in a direction, of the kinds that are shown, or -1.
function shownMark(object, i, direction) {
	while (i >= 0 && i < object.times.length && !view.shown[kindOf(object.kinds[i])]) i += direction;
	return i >= 0 && i < object.times.length ? i : -1;
}

// moveTo puts the cursor on a mark and brings it into view. If the panel is open, it shows the mark.
function moveTo(object, mark) {
	view.cursor = { object, mark };
	const t = object.times[mark], span = view.to - view.from;
	if (t < view.from || t > view.to) zoomTo(t - span / 2, t + span / 2);
	const row = view.rows.findIndex((r) => r.object === object);
	if (row * ROW < scroller.scrollTop) scroller.scrollTop = (row - 1) * ROW;
	else if ((row + 1) * ROW > scroller.scrollTop + scroller.clientHeight) {
		scroller.scrollTop = (row + 2) * ROW - scroller.clientHeight;
	}
	if (!details.hidden) showGroup(object, mark, mark);
	redraw();
}

// step moves to the mark before or after in the row. Without a cursor it begins with the first row in view.
function step(direction) {
	const c = view.cursor;
	if (!c || !view.rows.some((r) => r.object === c.object)) {
		stepRow(1);
		return;
	}
	const mark = shownMark(c.object, c.mark + direction, direction);
	if (mark >= 0) moveTo(c.object, mark);
}

// stepRow moves to the nearest mark of the next row, in a direction, that has one.
function stepRow(direction) {
	const c = view.cursor;
	let row = c ? view.rows.findIndex((r) => r.object === c.object) : -1;
	const t = row >= 0 ? c.object.times[c.mark] : view.from;
	row = row >= 0 ? row + direction : Math.trunc(scroller.scrollTop / ROW);
	for (; row >= 0 && row < view.rows.length; row += direction) {
		const { object } = view.rows[row];
		if (!object) continue;
		const at = firstAt(object.times, t);
		const after = shownMark(object, at, 1), before = shownMark(object, at - 1, -1);
		if (after < 0 && before < 0) continue;
		const near = after < 0 || (before >= 0 && t - object.times[before] < object.times[after] - t) ? before : after;
		moveTo(object, near);
		return;
	}
}

const keys = {
	ArrowLeft: () => step(-1), ArrowRight: () => step(1), ArrowUp: () => stepRow(-1), ArrowDown: () => stepRow(1),
	Home: () => view.cursor && moveTo(view.cursor.object, Math.max(0, shownMark(view.cursor.object, 0, 1))),
	End: () => view.cursor && moveTo(view.cursor.object,
		Math.max(0, shownMark(view.cursor.object, view.cursor.object.times.length - 1, -1))),
	Enter: () => {
		if (!view.cursor) step(1);
		if (view.cursor) showGroup(view.cursor.object, view.cursor.mark, view.cursor.mark);
	},
};
keys[" "] = keys.Enter;

document.addEventListener("keydown", (event) => {
	const typing = event.target.matches("input[type=search], select");
	if (event.ctrlKey || event.metaKey || event.altKey) return;
	let act = null;
	if (event.key === "Escape") act = hideDetails;
	else if (typing) return;
	else if (event.shiftKey && event.key === "ArrowLeft") act = () => pan(-0.25);
	else if (event.shiftKey && event.key === "ArrowRight") act = () => pan(0.25);
	else if (event.key === "+" || event.key === "=") act = () => zoom(0.5);
	else if (event.key === "-") act = () => zoom(2);
	else if (event.key === "0") act = () => zoomTo(whole.from, whole.to);
	else if (event.key === "/") act = () => element("search").focus();
	else if (event.target === scroller || event.target === document.body) act = keys[event.key];
	if (!act) return;
	event.preventDefault();
	act();
});

// Without a script the tools would do nothing: they are shown by it.
document.body.classList.add("ready");
list(false);
