// time.js: times as text, and the ticks of the axis.

const SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, SECOND, 2 * SECOND, 5 * SECOND, 10 * SECOND, 15 * SECOND,
	30 * SECOND, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR,
	6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 30 * DAY, 90 * DAY, 365 * DAY];

let utc = true;

// iso returns a time as 2026-11-27T03:00:00.000, in UTC or in the browser's zone.
function iso(t) {
	return new Date(Math.round(t) + offset(t)).toISOString().slice(0, -1);
}

function offset(t) { return utc ? 0 : -new Date(t).getTimezoneOffset() * MINUTE; }

function zoneName() { return utc ? "UTC" : Intl.DateTimeFormat().resolvedOptions().timeZone; }

function dateText(t) { return iso(t).split("T")[0]; }

// timeText returns a time in full, with milliseconds.
function timeText(t) { return iso(t).replace("T", " ") + " " + zoneName(); }

// clockText returns a time as short as a step between times allows.
function clockText(t, step) {
	const clock = iso(t).split("T")[1];
	if (step >= MINUTE) return clock.slice(0, 5);
	return step >= SECOND ? clock.slice(0, 8) : clock;
}

// spanText returns how long something took: "850 ms", "12.5 s", "3 min 20 s", "2 h 5 min", "3 d 4 h".
function spanText(ms) {
	if (ms < SECOND) return Math.round(ms) + " ms";
	if (ms < MINUTE) return (ms / SECOND).toFixed(1) + " s";
	const parts = [[DAY, "d"], [HOUR, "h"], [MINUTE, "min"], [SECOND, "s"]].map(([unit, name], i, units) =>
		[Math.trunc((i ? ms % units[i - 1][0] : ms) / unit), name]);
	const first = parts.findIndex(([n]) => n > 0);
	return parts.slice(first, first + 2).filter(([n]) => n > 0).map(([n, name]) => n + " " + name).join(" ");
}

// ticks returns the times of an axis that is some pixels wide, and how far they are apart.
function ticks(from, to, width) {
	const least = 90;
	const step = STEPS.find((s) => s / (to - from) * width >= least) || STEPS[STEPS.length - 1];
	const shift = offset(from);
	const times = [];
	for (let t = Math.ceil((from + shift) / step) * step - shift; t <= to; t += step) times.push(t);
	return { step, times };
}
