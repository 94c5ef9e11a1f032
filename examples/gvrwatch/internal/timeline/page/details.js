// details.js: the panel that shows what an event has changed.

const details = element("details");
const MOST = 50; // events of a group that are shown

function button(text, onClick) {
	const b = make("button", "", text);
	b.type = "button";
	b.addEventListener("click", onClick);
	return b;
}

function showPanel(title, ...content) {
	const close = button("Close", hideDetails);
	close.className = "close";
	const heading = make("h2");
	heading.append(make("bdi", "", title));
	details.replaceChildren(close, heading, ...content);
	details.scrollTop = 0;
	if (details.hidden) {
		details.hidden = false;
		redraw();
	}
}

function hideDetails() {
	if (details.contains(document.activeElement)) scroller.focus();
	details.hidden = true;
	details.replaceChildren();
	redraw();
}

// value returns a cell of a table of fields. Texts that read from right to left do not reorder what is around them.
function value(className, text) {
	const cell = make("td", className);
	if (text === "") cell.append(make("i", "none", "none"));
	else cell.append(make("bdi", "", text));
	return cell;
}

function showEvent(object, mark) {
	const list = changes[object.change[mark]], kind = kindOf(object.kinds[mark]);
	const [note, leftOut, managers] = list, inferred = (object.kinds[mark] & INFERRED) !== 0;
	const e = make("article");
	e.dataset.mark = mark;
	const title = make("h3");
	title.append(make("i", "shape " + KINDS[kind]), make("b", "", KINDS[kind] + (kind === EXISTED ? " before" : "")),
		" ", make("time", "", timeText(object.times[mark])));
	e.append(title);
	if (inferred) {
		e.append(make("p", "note", "Seen by a comparison: it happened at this time or earlier, since the last event."));
	}
	if (managers > 0) {
		const by = make("p", "by", "by ");
		by.append(make("bdi", "", list.slice(3, 3 + managers).map((n) => strings[n]).join(", ")));
		e.append(by);
	}
	if (note !== 0) e.append(make("p", "note", strings[note]));
	const fields = list.slice(3 + managers);
	if (fields.length > 0) {
		const table = make("table"), head = table.createTHead().insertRow(), body = table.createTBody();
		for (const text of ["field", "old", "new"]) head.append(make("th", "", text));
		for (let i = 0; i < fields.length; i += 3) {
			const row = body.insertRow();
			const path = make("td", "path");
			path.append(make("bdi", "", strings[fields[i]]));
			row.append(path, value("old", strings[fields[i + 1]]), value("new", strings[fields[i + 2]]));
		}
		e.append(table);
	}
	if (leftOut > 0) e.append(make("p", "note", number(leftOut) + " more fields are not on this page."));
	return e;
}

// showGroup shows the marks of an object from first to last, of the kinds that are shown.
function showGroup(object, first, last) {
	const marks = [];
	for (let i = first; i <= last; i++) if (view.shown[kindOf(object.kinds[i])]) marks.push(i);
	const content = marks.slice(0, MOST).map((mark) => showEvent(object, mark));
	if (marks.length > MOST) {
		content.push(make("p", "note", number(marks.length - MOST) + " more events: zoom in to see them."));
	}
	const bar = make("p", "buttons");
	bar.append(button("Previous", () => step(-1)), " ", button("Next", () => step(1)), " ",
		button("Zoom here", () => {
			const from = object.times[first], to = object.times[last], margin = Math.max((to - from) * 0.2, SECOND);
			zoomTo(from - margin, to + margin);
		}));
	const where = make("p", "where");
	where.append(make("bdi", "", object.type + (object.namespace ? " · " + object.namespace : "")), " · " +
		count(object.changed, "change"));
	showPanel(object.name, where, bar, ...content);
	redraw();
}

function gapText(gap) {
	const e = make("article");
	e.append(make("p", "", timeText(gap.from) + " to " + timeText(gap.to) + " (" + spanText(gap.to - gap.from) + ")"));
	e.append(make("p", "", gap.reason));
	const where = make("p", "note");
	where.append(make("bdi", "", gap.type || "all types"), gap.namespace ? " in " : "",
		make("bdi", "", gap.namespace));
	e.append(where, button("Zoom here", () => {
		const margin = Math.max(gap.to - gap.from, SECOND);
		zoomTo(gap.from - margin, gap.to + margin);
	}));
	return e;
}

function showGaps(some) {
	const content = some.slice(0, 4 * MOST).map(gapText);
	if (some.length > 4 * MOST) content.push(make("p", "note", number(some.length - 4 * MOST) + " more gaps."));
	showPanel(some.length === 1 ? "Gap" : "Gaps (" + number(some.length) + ")",
		make("p", "note", "Events may be missing here."), ...content);
}
