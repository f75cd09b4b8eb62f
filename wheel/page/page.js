// SPDX-License-Identifier: MIT
// What the wheel holds, drawn; the wheel itself is the C, in WASM.
"use strict";
(function () {
	const WASM = `
@wasm@`;	// in lines, which atob() takes
	const SVG = "http://www.w3.org/2000/svg";
	const MOST = 500;		// timers that are pending: more could not be told apart
	const LOGGED = 500;
	const SPEEDS = [1, 2, 5, 10, 20, 60, 200, 600, 1000];
	const TOO_FAR = 2 ** 52;
	const BEYOND = -4, DUE = -1, SORTED = -2, UNSORTED = -3;

	const two = (n) => String(n).padStart(2, "0");
	const hms = (s) => `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
	const ms = (t) => duration(t);

	const PRESETS = [
		{
			id: "clock", name: "Seconds, minutes, hours", slots: [60, 60, 12], tick: 1000, time: hms, speed: 3, jump: 60,
			about: "A tick is a second: 60 seconds, 60 minutes, 12 hours. The diamond recurs every 3 seconds, as a buff in a game does: it is one timer that starts itself again, not 14,400 copies in the slots of half a day.",
			start: [5, 9, 9, 31, 64, 75, 130, 155, 155, 290, 600, 1500, 2900, 4000, 9000, 21000, 30000], every: [3],
		},
		{
			id: "kafka", name: "Kafka’s example", slots: [3, 3, 3], tick: 1, time: ms, speed: 0, jump: 3,
			about: "The smallest unit is u = 1 ms, and a level has n = 3 slots: slots of 1, 3 and 9 ms, as in the documentation of Kafka’s timer. Here levels hold two turns each, and timers move down one turn before they are due.",
			start: [1, 2, 4, 4, 7, 8, 8, 11, 13, 16, 20, 25, 33, 60], every: [],
		},
		{
			id: "embedded", name: "75 slots for 5 minutes", slots: [10, 60, 5], tick: 100, time: (t) => `${Math.floor(t / 600)}:${two(Math.floor(t / 10) % 60)}.${t % 10}`, speed: 3, jump: 10,
			about: "For a small controller: a tick is 100 ms, and 10, 60 and 5 slots tell tenths of a second, seconds and minutes apart. So 75 slots do for 5 minutes, where a single level would take 3,000.",
			start: [4, 7, 13, 13, 26, 48, 120, 300, 300, 580, 900, 1400, 2000, 2600], every: [20],
		},
		{
			id: "default", name: "Powers of two", slots: [256, 64, 64, 64, 64], tick: 1, time: ms, speed: 6, jump: 1000,
			about: "What htw takes for ticks of 1 ms. Shifts and masks find the slot, and five levels span 50 days. Level 0 turns four times a second, so watch it at a high speed.",
			start: [20, 60, 61, 140, 200, 300, 420, 500, 800, 1200, 2500, 2500, 2510, 6000, 15000, 40000, 3e5, 9e5, 4e6, 2e7, 1e8, 9e8], every: [100],
		},
		{
			id: "none", name: "No levels", slots: [], tick: 1, time: ms, speed: 3, jump: 100,
			about: "A wheel works without levels, too: up to 63 timers are in a sorted list. With more, all are in lists by powers of four of the distance, a radix heap: start some dozens to see that.",
			start: [3, 10, 12, 12, 30, 31, 55, 90, 140, 200, 800, 5000], every: [25],
		},
	];

	// A time in ms, in the largest unit that suits it.
	function duration(t, digits = 6) {
		const units = [["days", 864e5], ["h", 36e5], ["min", 6e4], ["s", 1e3]];
		for (const [name, length] of units)
			if (t >= length)
				return `${Number((t / length).toPrecision(digits))} ${name}`;
		return `${t} ms`;
	}

	const by = (id) => document.getElementById(id);
	function make(name, attributes, parent) {
		const element = document.createElementNS(SVG, name);
		for (const key in attributes)
			element.setAttribute(key, attributes[key]);
		if (parent)
			parent.append(element);
		return element;
	}
	const plural = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;

	let wheel, preset, now, running = false, speed = 1;
	let timers, free, serial, counts;	// by their number in the wheel; the numbers that are not in use
	let dials = [], trays = [], mark, width = 0, height = 0, dot = 5;
	let focused = 0;			// the timer that Tab leads to
	let seed = 2463534242;

	// Random numbers that are the same each time: a picture of the page is, too.
	function random() {
		seed ^= seed << 13;
		seed ^= seed >>> 17;
		seed ^= seed << 5;
		return (seed >>> 0) / 2 ** 32;
	}

	const numbers = (at, count) => new Int32Array(wheel.memory.buffer, at, count);

	/* The wheel's operations. */

	function reset() {
		const slots = preset.slots;
		numbers(wheel.slots_at(), 8).set(slots);
		if (wheel.reset(slots.length))
			throw new Error("no such shape");
		timers = new Map();
		free = Array.from({ length: MOST }, (_, i) => MOST - 1 - i);
		now = 0;
		serial = 0;
		counts = { started: 0, stopped: 0, fired: 0 };
		by("dots").replaceChildren();
		by("ghosts").replaceChildren();
		by("log").replaceChildren();
	}

	function start(tick, period = 0) {
		if (!free.length || tick > TOO_FAR)
			return null;
		const t = { slot: free.pop(), id: ++serial, due: tick, period, level: null, bucket: 0, moved: false };
		wheel.start(t.slot, tick, period);
		timers.set(t.slot, t);
		counts.started++;
		return t;
	}

	function remove(t) {
		timers.delete(t.slot);
		free.push(t.slot);
		if (t.element)
			t.element.remove();
	}

	function stop(t) {
		wheel.stop(t.slot);
		counts.stopped++;
		remove(t);
	}

	// Tell the wheel the present; note what it does.
	function advance(to, news) {
		let left = 50;
		now = to;
		do {
			const fired = wheel.advance(now);
			const at = new Float64Array(wheel.memory.buffer, wheel.fired_at(), 2 * fired);
			for (let i = 0; i < fired; i++) {
				const t = timers.get(at[2 * i]);
				counts.fired++;
				news.fired.push({ t, due: at[2 * i + 1], at: now, x: t.x, y: t.y });
				if (t.period) {
					t.due = at[2 * i + 1] + t.period;
					t.level = null;
				} else {
					remove(t);
				}
			}
		} while (--left && wheel.next() >= 0 && wheel.next() <= now);
		look(news);
	}

	const placed = (level) => level === DUE ? "due" : level === SORTED ? "the sorted list" : level >= 0 ? `level ${level}` : preset.slots.length ? "beyond the levels" : "the lists";
	// A number that is higher the farther away a timer is.
	const height_of = (level) => level >= 0 ? level : level === BEYOND || level === UNSORTED ? 99 : -1;

	// Ask the wheel where each timer is now.
	function look(news) {
		const count = wheel.look(), at = numbers(wheel.places_at(), 3 * count);
		for (let i = 0; i < count; i++) {
			const t = timers.get(at[3 * i]), level = at[3 * i + 1];
			if (news && t.level !== null && preset.slots.length && height_of(level) < height_of(t.level)) {
				const from = placed(t.level), to = placed(level);
				news.moved.set(`${from} to ${to}`, (news.moved.get(`${from} to ${to}`) || 0) + 1);
				t.moved = true;
			} else if (news && !news.keep) {
				t.moved = false;
			}
			t.level = level;
			t.bucket = at[3 * i + 2];
			t.order = i;
		}
	}

	/* Where things are drawn. */

	const span_of = (l) => preset.slots.slice(0, l).reduce((all, n) => all * n, 1);
	const polar = (d, r, turn) => [d.x + r * Math.sin(2 * Math.PI * turn), d.y - r * Math.cos(2 * Math.PI * turn)];
	const at2 = (p) => `${p[0].toFixed(2)} ${p[1].toFixed(2)}`;

	// A part of a ring, between two fractions of a turn.
	function arc(d, r0, r1, from, to) {
		if (to - from > 0.9999) {
			const half = (from + to) / 2;
			return arc(d, r0, r1, from, half) + arc(d, r0, r1, half, to);
		}
		const big = to - from > 0.5 ? 1 : 0;
		return `M${at2(polar(d, r1, from))}A${r1} ${r1} 0 ${big} 1 ${at2(polar(d, r1, to))}L${at2(polar(d, r0, to))}A${r0} ${r0} 0 ${big} 0 ${at2(polar(d, r0, from))}Z`;
	}

	// Two rings: that of even turns outside, that of odd ones inside.
	const ring = (d, second) => second ? [d.r * 0.62, d.r * 0.79] : [d.r * 0.81, d.r * 0.98];

	// Sizes and places of the dials for this width.
	function arrange() {
		const levels = preset.slots.length, sizes = [];
		width = Math.max(280, by("dials").clientWidth || 280);
		height = 0;
		if (!levels) {
			dials = [];
		} else if (width < 600) {
			const big = Math.min(width, 340);
			sizes.push([width / 2, big / 2, big]);
			for (let l = 1; l < levels; l++) {
				const row = Math.floor((l - 1) / 2), alone = l === levels - 1 && l % 2 === 1;
				sizes.push([alone ? width / 2 : width * (l % 2 ? 0.25 : 0.75), big + (row + 0.5) * width / 2, width / 2]);
			}
			height = big + Math.ceil((levels - 1) / 2) * width / 2;
		} else if (levels <= 3) {
			const size = Math.min(width / levels, 370), gap = (width - levels * size) / 2;
			for (let l = 0; l < levels; l++)
				sizes.push([gap + (l + 0.5) * size, size / 2, size]);
			height = size;
		} else {
			const big = Math.min(width * 0.5, 480), rest = (width - big) / 2;
			const small = Math.min(rest, big / 2), gap = (width - big - 2 * small) / 2;
			sizes.push([gap + big / 2, big / 2, big]);
			for (let l = 1; l < levels; l++)
				sizes.push([gap + big + ((l - 1) % 2 + 0.5) * small, (Math.floor((l - 1) / 2) + 0.5) * small + (big - 2 * small) / 2, small]);
			height = big;
		}
		dials = sizes.map(([x, y, size], l) => ({
			l, x, y, r: size / 2 - 17, n: preset.slots[l], span: span_of(l),
		}));
		dot = width < 600 ? 4.2 : 5;
		draw_back();
	}

	function draw_back() {
		const back = by("back");
		back.replaceChildren();
		by("hands").replaceChildren();
		by("hover").replaceChildren();
		for (const d of dials) {
			const g = make("g", { class: "dial", "data-level": d.l }, back);
			const step = d.n <= 72 ? 1 : d.n / 32;
			let marks = "";
			for (const second of [0, 1]) {
				const [r0, r1] = ring(d, second);
				make("path", { class: "track", d: arc(d, r0, r1, 0, 1) }, g);
				for (let i = 0; i < d.n; i += step)
					marks += `M${at2(polar(d, r0, i / d.n))}L${at2(polar(d, r1, i / d.n))}`;
			}
			d.open = make("path", { class: "open" }, g);
			make("path", { class: "marks", d: marks }, g);
			make("circle", { class: "rim", cx: d.x, cy: d.y, r: d.r * 0.98 }, g);
			make("circle", { class: "rim", cx: d.x, cy: d.y, r: d.r * 0.62 }, g);
			const labels = d.n <= 12 ? 1 : d.r < 90 ? d.n / 4 : d.n % 12 === 0 ? d.n / 12 : d.n / 8;
			for (let i = 0; i < d.n; i += labels) {
				const [x, y] = polar(d, d.r + 8, (i + 0.5) / d.n);
				make("text", { x, y: y + 4 }, g).textContent = i;
			}
			const small = d.r < 85 ? " small" : "", line = small ? 14 : 17;
			make("text", { class: `name${small}`, x: d.x, y: d.y - line + 6 }, g).textContent = `Level ${d.l}`;
			make("text", { class: small, x: d.x, y: d.y + 7 }, g).textContent = `${duration(d.span * preset.tick, 3)}${small ? "" : " a slot"}`;
			d.text = make("text", { class: small, x: d.x, y: d.y + line + 7 }, g);
			g.addEventListener("click", (event) => clicked(d, event));
			g.addEventListener("pointermove", (event) => pointed(d, event));
			g.addEventListener("pointerleave", () => pointed(null));
			d.hand = make("path", { class: "hand" }, by("hands"));
			d.tip = make("path", { class: "tip" }, by("hands"));
		}
		trays = [];
		mark = make("path", { class: "pointed" }, by("hover"));
	}

	// The trays below the dials: what is on no level.
	function draw_trays() {
		for (const tray of trays)
			tray.remove();
		trays = [];
		const groups = new Map();
		for (const t of [...timers.values()].sort((a, b) => a.order - b.order)) {
			if (t.level >= 0)
				continue;
			const key = t.level === BEYOND ? `list ${t.bucket}` : t.level === SORTED ? "sorted" : t.level === DUE ? "due" : "to be sorted";
			groups.set(key, [...(groups.get(key) || []), t]);
		}
		let y = height + 6;
		const cell = 50, beyond = width < 600 ? "Beyond the levels" : "Beyond the levels, in lists by powers of four";
		const title = preset.slots.length ? beyond : groups.has("sorted") || !groups.size ? "A sorted list" : "Lists by powers of four";
		const text = make("text", { class: "name left", x: 2, y: y + 14 }, by("back"));
		text.textContent = `${title}: ${plural([...groups.values()].reduce((n, g) => n + g.length, 0), "timer")}`;
		trays.push(text);
		y += 22;
		const columns = Math.max(4, Math.floor((width - 76) / cell));
		for (const [key, list] of groups.size ? groups : [["empty", []]]) {
			const rows = Math.max(1, Math.ceil(list.length / columns));
			trays.push(make("rect", { class: "tray", x: 1, y, width: width - 2, height: rows * 34 + 6, rx: 8 }, by("back")));
			const name = make("text", { class: "left", x: 10, y: y + 23 }, by("back"));
			name.textContent = key;
			trays.push(name);
			list.forEach((t, i) => {
				t.x = 76 + (i % columns + 0.5) * cell;
				t.y = y + Math.floor(i / columns) * 34 + 14;
			});
			y += rows * 34 + 12;
		}
		return y;
	}

	// Dots of one slot stand in columns along its arc; if they are many, closer together.
	function place_dots() {
		const slots = new Map();
		for (const t of timers.values())
			if (t.level >= 0) {
				const key = t.level * 65536 + t.bucket;
				slots.set(key, [...(slots.get(key) || []), t]);
			}
		for (const list of slots.values()) {
			const { level, bucket } = list[0], d = dials[level];
			list.sort((a, b) => a.order - b.order);
			const [r0, r1] = ring(d, bucket >= d.n), middle = (r0 + r1) / 2;
			const pitch = 2.15 * dot, rows = Math.max(1, Math.floor((r1 - r0) / pitch));
			const most = Math.max(1, Math.floor(2 * Math.PI * middle / d.n / pitch));
			const columns = Math.min(most, Math.ceil(list.length / rows)), high = Math.ceil(list.length / columns);
			const apart = Math.min(pitch, (r1 - r0 - 2 * dot) / Math.max(1, high - 1));
			list.forEach((t, i) => {
				const column = Math.floor(i / high), row = i % high;
				const along = (column - (columns - 1) / 2) * pitch / (2 * Math.PI * middle);
				const r = middle + ((high - 1) / 2 - row) * apart;
				[t.x, t.y] = polar(d, r, (bucket % d.n + 0.5) / d.n + along);
			});
		}
	}

	function draw_dot(t) {
		if (!t.element) {
			const g = t.element = make("g", { class: "t", role: "button", tabindex: -1 }, by("dots"));
			make("circle", { class: "target", r: dot + 3 }, g);
			if (t.period) {
				const s = dot * 1.3;
				make("path", { class: "shape period", d: `M0 ${-s}L${s} 0L0 ${s}L${-s} 0Z` }, g);
			} else {
				make("circle", { class: "shape once", r: dot }, g);
			}
			g.addEventListener("click", (event) => {
				event.stopPropagation();
				stop_one(t);
			});
			g.addEventListener("keydown", (event) => key_on(t, event));
			g.addEventListener("focus", () => { focused = t.id; });
			g.addEventListener("pointerenter", () => hint(describe(t)));
		}
		const g = t.element;
		g.style.transform = `translate(${t.x.toFixed(1)}px, ${t.y.toFixed(1)}px)`;
		g.dataset.id = t.id;
		g.dataset.due = t.due;
		g.dataset.level = t.level;
		g.dataset.slot = t.bucket;
		g.setAttribute("aria-label", `${describe(t)} Stop it`);
		if (t.moved && !t.ring)
			t.ring = make("circle", { class: "halo", r: dot + 3 }, g);
		else if (!t.moved && t.ring)
			t.ring = void t.ring.remove();
		// In trays the tick stands below.
		if (t.level < 0 && !t.label)
			t.label = make("text", { class: "due", y: dot + 12 }, g);
		else if (t.level >= 0 && t.label)
			t.label = void t.label.remove();
		if (t.label)
			t.label.textContent = short(t.due);
	}

	const short = (n) => n < 1e5 ? n : `${Number((n / 1e6).toPrecision(3))}M`;
	const tick_text = (tick) => `tick ${tick.toLocaleString("en")} (${preset.time(tick)})`;
	function describe(t) {
		const level = t.level >= 0 ? `level ${t.level}, slot ${t.bucket % preset.slots[t.level]}` : placed(t.level);
		return `Timer ${t.id}${t.period ? `, every ${plural(t.period, "tick")}` : ""}: due at ${tick_text(t.due)}, ${level}.`;
	}

	const in_order = () => [...timers.values()].sort((a, b) => a.due - b.due || a.id - b.id);

	// Set the text of an element, if it is another one.
	function set(element, text) {
		if (element.textContent !== text)
			element.textContent = text;
	}

	function set_tick(id, tick) {
		const element = by(id);
		if (!element.firstChild)
			element.append(document.createElement("span"), document.createElement("small"));
		set(element.firstChild, tick < 0 ? "never" : String(tick));
		set(element.lastChild, tick < 0 ? "" : preset.time(tick));
	}

	function rows(list, count) {
		while (list.children.length < count)
			list.append(document.createElement("li"));
		while (list.children.length > count)
			list.lastChild.remove();
		return list.children;
	}

	function draw() {
		place_dots();
		const bottom = draw_trays(), svg = by("dials");
		svg.setAttribute("viewBox", `0 0 ${width} ${Math.ceil(bottom)}`);
		svg.style.height = `${Math.ceil(bottom)}px`;
		for (const t of timers.values())
			draw_dot(t);

		for (const d of dials) {
			const mine = [...timers.values()].filter((t) => t.level === d.l);
			set(d.text, plural(mine.length, "timer"));
			let path = "", from = d.l ? wheel.end_of(d.l - 1) / d.span : now + 1;
			const end = wheel.end_of(d.l) / d.span;
			for (; from < end; from = (Math.floor(from / d.n) + 1) * d.n) {
				const turn = Math.floor(from / d.n), until = Math.min(end, (turn + 1) * d.n);
				path += arc(d, ...ring(d, turn % 2), from / d.n - turn, until / d.n - turn);
			}
			d.open.setAttribute("d", path);
			const slot = Math.floor(now / d.span), [r0, r1] = ring(d, Math.floor(slot / d.n) % 2);
			const turn = (slot % d.n + (now % d.span + 0.5) / d.span) / d.n;
			const tip = polar(d, r1, turn), back = r1 - 9, wide = 4 / (2 * Math.PI * back);
			d.hand.setAttribute("d", `M${at2(polar(d, r0 - 6, turn))}L${at2(polar(d, back, turn))}`);
			d.tip.setAttribute("d", `M${at2(tip)}L${at2(polar(d, back, turn - wide))}L${at2(polar(d, back, turn + wide))}Z`);
		}

		const next = wheel.next();
		set_tick("now", now);
		set_tick("next", next);
		by("work").disabled = next < 0 || next > TOO_FAR;
		by("clear").disabled = !timers.size;
		set(by("pending"), String(wheel.pending()));
		set(by("moved"), String(wheel.moved()));
		for (const name of ["started", "stopped", "fired"])
			set(by(name), String(counts[name]));

		const order = in_order(), soon = order.slice(0, 7), soon_rows = rows(by("soon"), 7);
		for (let i = 0; i < 7; i++)
			set(soon_rows[i], soon[i] ? `Timer ${soon[i].id}, in ${plural(soon[i].due - now, "tick")}, on ${placed(soon[i].level)}`.replace("on the", "in the").replace("on beyond", "beyond") : "");
		if (order.length && !order.some((t) => t.id === focused))
			focused = order[0].id;
		for (const t of order)
			t.element.setAttribute("tabindex", t.id === focused ? 0 : -1);
		const level_rows = rows(by("levels"), preset.slots.length + 1);
		for (const d of dials) {
			const mine = order.filter((t) => t.level === d.l), used = new Set(mine.map((t) => t.bucket)).size;
			set(level_rows[d.l], `Level ${d.l}: ${plural(mine.length, "timer")} in ${used} of 2 × ${d.n} slots`);
		}
		set(level_rows[preset.slots.length], `${preset.slots.length ? "Beyond" : "In lists"}: ${plural(order.filter((t) => t.level < 0).length, "timer")}`);
	}

	/* What people do. */

	const say = (text) => set(by("said"), text);
	const hint = (text) => set(by("hint"), text);

	function fresh(keep = false) {
		return { fired: [], moved: new Map(), keep };
	}

	// Say what a call has done, in words.
	function tell(news, from) {
		for (const f of news.fired.slice(-LOGGED)) {
			const li = document.createElement("li");
			li.textContent = `Timer ${f.t.id}, due at tick ${f.due}, fired at tick ${f.at}`;
			by("log").prepend(li);
			if (f.x !== undefined && news.fired.length < 40) {
				const ghost = make("circle", { class: "ghost", cx: f.x, cy: f.y, r: 4 }, by("ghosts"));
				ghost.addEventListener("animationend", () => ghost.remove());
			}
		}
		while (by("log").children.length > LOGGED)
			by("log").lastChild.remove();
		const parts = [];
		if (news.fired.length)
			parts.push(news.fired.length <= 3 ? `Fired: ${news.fired.map((f) => `timer ${f.t.id}`).join(", ")}.` : `Fired: ${plural(news.fired.length, "timer")}.`);
		for (const [way, count] of news.moved)
			parts.push(`Moved down, from ${way}: ${plural(count, "timer")}.`);
		if (!parts.length) {
			const next = wheel.next();
			parts.push(next < 0 ? "No timer is pending." : `Nothing to do until tick ${next.toLocaleString("en")}.`);
		}
		say(`${from === now ? "" : `Tick ${now.toLocaleString("en")}: `}${parts.join(" ")}`);
	}

	function go(to) {
		const news = fresh(), from = now;
		advance(Math.min(to, TOO_FAR), news);
		draw();
		tell(news, from);
	}

	function changed(text) {
		look(fresh(true));
		draw();
		say(text);
	}

	function start_one(tick, period) {
		const t = start(tick, period);
		if (!t)
			return say(`There are ${MOST} timers: stop some first.`);
		if (tick <= now)
			go(now);	// its tick has come, so it fires
		else {
			look(fresh(true));
			changed(`Started. ${describe(t)}`);
		}
	}

	function random_tick() {
		const all = preset.slots.length ? span_of(preset.slots.length) * 1.5 : 5000;
		return now + Math.max(1, Math.floor(Math.exp(random() * Math.log(all))));
	}

	function start_some(count) {
		let t, started = 0;
		while (started < count && (t = start(random_tick())))
			started++;
		look(fresh(true));
		changed(started === 1 ? `Started. ${describe(t)}` : started ? `Started ${started} timers.` : `There are ${MOST} timers: stop some first.`);
	}

	function stop_one(t) {
		const order = in_order(), at = order.indexOf(t), had_focus = document.activeElement === t.element;
		stop(t);
		const next = order[at + 1] || order[at - 1];
		if (next)
			focused = next.id;
		changed(`Stopped timer ${t.id}, which was due at ${tick_text(t.due)}.`);
		if (had_focus && next)
			next.element.focus();
		else if (had_focus)
			by("start-in").focus();
	}

	function key_on(t, event) {
		const order = in_order(), at = order.indexOf(t);
		const to = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: order.length - 1 }[event.key];
		if (to !== undefined) {
			const next = order[Math.max(0, Math.min(order.length - 1, to))];
			t.element.setAttribute("tabindex", -1);
			next.element.setAttribute("tabindex", 0);
			next.element.focus();
			hint(describe(next));
		} else if (["Enter", " ", "Delete", "Backspace"].includes(event.key)) {
			stop_one(t);
		} else {
			return;
		}
		event.preventDefault();
	}

	// The slot at a place of a dial, and the first tick to come that it is for.
	function slot_at(d, event) {
		const box = by("dials").getBoundingClientRect();
		const x = (event.clientX - box.left) * width / box.width - d.x, y = (event.clientY - box.top) * width / box.width - d.y;
		const r = Math.hypot(x, y);
		if (r < d.r * 0.6 || r > d.r * 1.02)
			return null;
		const turn = (Math.atan2(x, -y) / (2 * Math.PI) + 1) % 1, second = r < d.r * 0.8;
		const index = Math.floor(turn * d.n) + (second ? d.n : 0), first = Math.floor((now + 1) / d.span);
		const slot = first + (index - first % (2 * d.n) + 2 * d.n) % (2 * d.n);
		return { index, second, from: Math.max(now + 1, slot * d.span), to: (slot + 1) * d.span - 1 };
	}

	function clicked(d, event) {
		const s = slot_at(d, event);
		if (s)
			start_one(s.from + Math.floor(random() * (s.to - s.from + 1)), 0);
	}

	function pointed(d, event) {
		const s = d && slot_at(d, event);
		mark.setAttribute("d", s ? arc(d, ...ring(d, s.second), s.index % d.n / d.n, (s.index % d.n + 1) / d.n) : "");
		if (s)
			hint(`Level ${d.l}, slot ${s.index % d.n}: ${s.from === s.to ? tick_text(s.to) : `ticks ${s.from.toLocaleString("en")} to ${s.to.toLocaleString("en")} (${preset.time(s.from)} to ${preset.time(s.to)})`}. Click to start a timer.`);
	}

	let last = 0, owed = 0;
	function frame(time) {
		if (!running)
			return;
		owed += Math.min(0.25, (time - last) / 1000) * speed;
		last = time;
		const ticks = Math.floor(owed), from = now;
		owed -= ticks;
		if (ticks) {
			const news = fresh();
			for (let i = 0; i < ticks; i++) {
				advance(now + 1, news);
				news.keep = true;	// halos of all ticks of this frame
			}
			draw();
			if (news.fired.length || news.moved.size || speed < 5)
				tell(news, from);
		}
		requestAnimationFrame(frame);
	}

	function run(yes) {
		running = yes;
		set(by("run"), yes ? "Pause" : "Run");
		by("said").setAttribute("aria-live", yes ? "off" : "polite");
		if (yes) {
			last = performance.now();
			owed = 0;
			requestAnimationFrame(frame);
		}
	}

	function set_speed() {
		speed = SPEEDS[by("speed").value];
		set(by("speed-is"), plural(speed, "tick") + " / s");
		by("speed").setAttribute("aria-valuetext", plural(speed, "tick") + " a second");
		by("dials").style.setProperty("--move", `${speed > 60 ? 0.08 : Math.min(0.6, 3 / speed)}s`);
	}

	function choose(id) {
		preset = PRESETS.find((p) => p.id === id) || PRESETS[0];
		by(`preset-${preset.id}`).checked = true;
		run(false);
		reset();
		set(by("about"), preset.about);
		by("speed").value = preset.speed;
		by("jump-by").value = preset.jump;
		set_speed();
		arrange();
		for (const delay of preset.start)
			start(delay);
		for (const period of preset.every)
			start(period, period);
		changed(`${plural(timers.size, "timer")} to begin with: Run, or Step.`);
	}

	// A number from a field; NaN if it holds none, and the browser says so.
	function number(id) {
		return by(id).reportValidity() ? by(id).valueAsNumber : NaN;
	}

	function listen() {
		by("run").addEventListener("click", () => run(!running));
		by("step").addEventListener("click", () => go(now + 1));
		by("work").addEventListener("click", () => go(Math.max(now, wheel.next())));
		by("speed").addEventListener("input", set_speed);
		by("jumper").addEventListener("submit", (event) => {
			event.preventDefault();
			const ticks = number("jump-by");
			if (ticks > 0)
				go(now + ticks);
		});
		by("starter").addEventListener("submit", (event) => {
			event.preventDefault();
			const ticks = number("start-in");
			if (ticks >= 0)
				start_one(now + ticks, by("again").checked ? Math.max(1, ticks) : 0);
		});
		by("random").addEventListener("click", () => start_some(1));
		by("ten").addEventListener("click", () => start_some(10));
		by("clear").addEventListener("click", () => {
			const all = timers.size;
			for (const t of [...timers.values()])
				stop(t);
			changed(`Stopped ${plural(all, "timer")}.`);
		});
		new ResizeObserver(() => {
			if (by("dials").clientWidth !== width) {
				arrange();
				draw();
			}
		}).observe(by("dials"));
		window.addEventListener("hashchange", () => choose(location.hash.slice(1)));
	}

	async function begin() {
		const bytes = Uint8Array.from(atob(WASM), (c) => c.charCodeAt(0));
		wheel = (await WebAssembly.instantiate(bytes, {})).instance.exports;
		for (const p of PRESETS) {
			const label = document.createElement("label"), input = document.createElement("input"), name = document.createElement("span");
			Object.assign(input, { type: "radio", name: "preset", id: `preset-${p.id}`, value: p.id });
			input.addEventListener("change", () => choose(p.id));
			name.textContent = p.name;
			label.append(input, name);
			by("presets").append(label);
		}
		listen();
		choose(location.hash.slice(1));
		document.body.dataset.ready = "yes";
	}

	begin().catch((error) => {
		by("broken").hidden = false;
		by("broken").textContent = `The wheel cannot be started here: ${error.message}`;
		throw error;
	});
})();
