"use strict";
// data.js: what the page is of, which rows are shown and in which order. The server's texts are in `strings`.

const recorded = JSON.parse(document.getElementById("data").textContent);
const strings = recorded.strings;
const changes = recorded.changes; // [note, fields left out, n, n managers..., path, old, new, path, old, new...]

// The numbers are those of Kind in page.go.
const EXISTED = 0, CREATED = 1, CHANGED = 2, DELETED = 3;
const KINDS = ["existed", "created", "changed", "deleted"];
const INFERRED = 4;

const gaps = recorded.gaps.map((g, index) => ({
	index, from: g.from, to: g.to, reason: strings[g.reason], type: strings[g.type], namespace: strings[g.namespace],
}));
const forgotten = recorded.gaps.filter((g) => g.forgets);

const objects = recorded.objects.map((o, index) => {
	const n = o.marks.length / 3;
	const times = new Float64Array(n), kinds = new Uint8Array(n), change = new Uint32Array(n);
	let changed = 0, first = Infinity;
	for (let i = 0; i < n; i++) {
		times[i] = recorded.from + o.marks[3 * i];
		kinds[i] = o.marks[3 * i + 1];
		change[i] = o.marks[3 * i + 2];
		if (kindOf(kinds[i]) !== EXISTED) {
			changed++;
			first = Math.min(first, times[i]);
		}
	}
	const name = strings[o.name], namespace = strings[o.namespace], type = strings[o.type];
	const full = type + " " + (namespace ? namespace + "/" : "") + name;
	return { index, name, namespace, type, full, times, kinds, change, changed, first, lives: livesOf(times, kinds) };
});

function kindOf(number) { return number & (INFERRED - 1); }

// livesOf returns when an object existed, as far as it is known. One with `before` existed before that, one with `after`
// may exist after it: beyond the recording, or while nobody recorded.
function livesOf(times, kinds) {
	const lives = [];
	let life = null;
	const begin = (t, kind) => {
		const ended = lives.length > 0 ? lives[lives.length - 1].to : -Infinity;
		const gap = forgotten.findLast((g) => g.to <= t);
		life = kind === CREATED ? { from: t, before: false }
			: { from: Math.max(gap ? gap.to : -Infinity, ended), before: true };
	};
	const end = (to, after) => {
		lives.push({ ...life, to, after });
		life = null;
	};
	for (let i = 0; i < times.length; i++) {
		const kind = kindOf(kinds[i]);
		const gap = life && forgotten.find((g) => times[i - 1] <= g.from && g.to <= times[i]);
		if (gap) end(gap.from, true);
		if (!life) begin(times[i], kind);
		if (kind === DELETED) end(times[i], false);
	}
	if (life) {
		const gap = forgotten.find((g) => times[times.length - 1] <= g.from);
		end(gap ? gap.from : Infinity, true);
	}
	return lives;
}

const gapLists = new Map();

// gapsOf returns the gaps in which events of an object may be missing: they are the same for a type and namespace.
function gapsOf({ type, namespace }) {
	const key = type + " " + namespace;
	if (!gapLists.has(key)) {
		gapLists.set(key, gaps.filter((gap) => (!gap.type || gap.type === type) &&
			(!gap.namespace || gap.namespace === namespace)));
	}
	return gapLists.get(key);
}

// firstAt returns the index of the first time that is not before t.
function firstAt(times, t) {
	let low = 0, high = times.length;
	while (low < high) {
		const middle = (low + high) >> 1;
		if (times[middle] < t) low = middle + 1;
		else high = middle;
	}
	return low;
}

let lowered = null; // the texts in lower case, once somebody searches

// search returns for which objects every word of the text is in the type, namespace or name, or in a diff; for which of
// them a word is only in diffs; and which changes have one of the words.
function search(text) {
	const words = text.toLowerCase().split(/\s+/).filter((w) => w !== "");
	const hits = new Uint8Array(changes.length);
	const matching = new Uint8Array(objects.length).fill(1);
	const inDiff = new Uint8Array(objects.length);
	if (words.length === 0) return { matching, inDiff, hits };
	lowered = lowered || strings.map((s) => s.toLowerCase());
	for (const w of words) {
		const inText = lowered.map((s) => s.includes(w));
		const inChange = new Uint8Array(changes.length);
		changes.forEach((list, i) => {
			if (inText[list[0]] || list.some((n, at) => at > 2 && inText[n])) inChange[i] = hits[i] = 1;
		});
		for (const o of objects) {
			if (!matching[o.index] || o.full.toLowerCase().includes(w)) continue;
			if (o.change.some((c) => inChange[c])) inDiff[o.index] = 1;
			else matching[o.index] = 0;
		}
	}
	return { matching, inDiff, hits };
}

function compare(a, b) { return a < b ? -1 : a > b ? 1 : 0; }

const orders = {
	name: (a, b) => a.index - b.index, // the page's data is in this order
	first: (a, b) => compare(a.first, b.first) || a.index - b.index,
	most: (a, b) => b.changed - a.changed || a.index - b.index,
};

// changesIn reports whether an object has a change between two times, of the kinds that are shown.
function changesIn(o, from, to, shown) {
	for (let i = firstAt(o.times, from); i < o.times.length && o.times[i] <= to; i++) {
		const kind = kindOf(o.kinds[i]);
		if (kind !== EXISTED && shown[kind]) return true;
	}
	return false;
}

// listRows returns the rows in their order. Ordered by name, a row without an object begins each type and namespace.
function listRows(order, keep) {
	const kept = objects.filter(keep).sort(orders[order]);
	if (order !== "name") return { rows: kept.map((object) => ({ object })), kept };
	const rows = [];
	let group = null, head = null;
	for (const object of kept) {
		const key = object.type + (object.namespace ? " · " + object.namespace : "");
		if (key !== group) rows.push((head = { head: key, count: 0 }));
		group = key;
		head.count++;
		rows.push({ object });
	}
	return { rows, kept };
}
