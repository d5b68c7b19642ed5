// The page of a verification: lays out results, pairs and figures. Sums and words come from the file.

const $ = (id) => document.getElementById(id);
const { verify, view, words } = data;
const TONES = { passed: "good", failed: "bad", unproven: "warn", not_asked: "warn", skipped: "" };
const SHOWN_AT_ONCE = 300;

const stateOf = (one) => one.state === "skipped" && one.is_asked ? "left_out" : one.state;
const wordOf = (one) => stateOf(one) === "left_out" ? "asked, skipped" : words[one.state];
const toneOf = (one) => stateOf(one) === "left_out" ? "warn" : TONES[one.state];
const codeLink = (code) => make("a", { href: `#${code}` }, code);
const gbps = (value) => value.toFixed(1);

function drawFailed() {
  const failed = verify.results.map((one, place) => [one, view.texts[place]]).filter(([one]) => one.state === "failed");
  $("failed").hidden = !failed.length;
  $("failed").append(...failed.slice(0, SHOWN_AT_ONCE).map(([one, text]) => make("div", { class: "finding" },
    make("p", {}, make("b", {}, codeLink(one.code)), make("b", {}, one.subject.name), one.title),
    make("p", {}, one.meaning ? `${text}: ${one.meaning}` : text),
    make("p", { class: "soft" }, `\u2192 ${one.remedy}`))));
  if (failed.length > SHOWN_AT_ONCE) $("failed").append(make("p", {}, `${failed.length - SHOWN_AT_ONCE} more are listed below`));
}

function drawCell(cell) {
  if (!cell) return make("td", { class: "soft" }, "not measured");
  if (cell.gbps === null) return make("td", { class: TONES[cell.state], title: cell.text }, words[cell.state]);
  return make("td", { class: TONES[cell.state], title: cell.text }, make("b", {}, gbps(cell.gbps)),
    make("span", { class: "soft" }, cell.least_gbps === null ? "of an unknown line rate" : `of ${gbps(cell.least_gbps)}`), " ",
    cell.state === "passed" ? "" : make("span", { class: "sign" }, cell.code ? codeLink(cell.code) : words[cell.state]));
}

function drawMatrix(matrix) {
  const cells = new Map(matrix.cells.map((cell) => [JSON.stringify([cell.source, cell.target]), cell]));
  const title = make("h2", {}, `${matrix.title}: Gb/s, of the required rate`);
  return make("div", { class: "matrix" }, title,
    make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": matrix.title },
      make("table", {},
        make("thead", {}, make("tr", {}, make("td", { class: "soft" }, "from, to"), ...matrix.workers.map((name) => make("th", { scope: "col" }, name)))),
        make("tbody", {}, ...matrix.workers.map((source) => make("tr", {}, make("th", { scope: "row" }, source),
          ...matrix.workers.map((target) => source === target ? make("td", { class: "soft" }, "itself")
            : drawCell(cells.get(JSON.stringify([source, target]))))))))));
}

// The values of a figure over the runs, from zero to the most; a run that did not measure it breaks the line.
function drawTrend(figure) {
  const [width, height, inner] = [140, 26, 3];
  const most = Math.max(figure.before ?? 0, ...figure.values.map((value) => value ?? 0)) || 1;
  const x = (place) => inner + (figure.values.length > 1 ? place / (figure.values.length - 1) : 1) * (width - 2 * inner);
  const y = (value) => height - inner - (value / most) * (height - 2 * inner);
  const told = figure.values.map((value) => value === null ? "none" : gbps(value)).join(", ");
  const svg = drawn("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `by run, the oldest first: ${told} ${figure.unit}` });
  if (figure.before !== null) svg.append(drawn("line", { class: "trend-base", x1: 0, x2: width, y1: y(figure.before), y2: y(figure.before) }));
  let path = "";
  let isOn = false;
  figure.values.forEach((value, place) => {
    if (value !== null) path += `${isOn ? "L" : "M"}${x(place).toFixed(1)} ${y(value).toFixed(1)}`;
    isOn = value !== null;
  });
  svg.append(drawn("path", { class: "trend", d: path }));
  const last = figure.values.length - 1;
  if (figure.values[last] !== null) svg.append(drawn("circle", { class: "trend-now", cx: x(last), cy: y(figure.values[last]), r: 2.5 }));
  return svg;
}

function drawHistory() {
  $("history").hidden = !view.figures.length;
  if (!view.figures.length) return;
  if (view.runs.length > 1) {
    $("history").append(make("ul", { class: "runs", "aria-label": "Runs, the oldest first" }, ...view.runs.map((run) =>
      make("li", { class: run.passes ? "good" : run.failed ? "bad" : "warn" },
        `${run.begun} ${run.passes ? "passed" : run.failed ? `${run.failed} failed` : "not proven"}`))));
  }
  const than = view.baseline_begun ? `baseline of ${view.baseline_begun}` : "";
  const head = ["of", "check", than, "this run", than ? "change" : "", "by run"].filter(Boolean);
  const loss = verify.thresholds.loss;
  $("history").append(make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table of figures" },
    make("table", { class: "figures" },
      make("thead", {}, make("tr", {}, ...head.map((text) => make("th", { scope: "col" }, text)))),
      make("tbody", {}, ...view.figures.map((figure) => {
        const now = figure.values[figure.values.length - 1];
        const tone = figure.change === null ? (now === null ? "warn" : "") : figure.change < -loss ? "bad" : "";
        return make("tr", {}, make("th", { scope: "row" }, figure.subject), make("th", { scope: "row" }, figure.check),
          ...(than ? [make("td", {}, figure.before === null ? "none" : `${gbps(figure.before)} ${figure.unit}`)] : []),
          make("td", {}, now === null ? "not measured" : `${gbps(now)} ${figure.unit}`),
          ...(than ? [make("td", { class: tone }, make("span", { class: "sign" }, figure.change === null ? "unknown"
            : `${figure.change < 0 ? "\u2212" : "+"}${Math.abs(100 * figure.change).toFixed(1)} %`))] : []),
          make("td", {}, drawTrend(figure)));
      })))));
}

function drawRow({ one, text }) {
  const seen = one.state === "passed" && one.expected && one.expected !== one.observed ? `${text} (expected: ${one.expected})` : text;
  return make("li", {},
    make("span", { class: `sign ${toneOf(one)}` }, wordOf(one), " ", one.code ? codeLink(one.code) : ""),
    make("b", {}, one.subject.name), make("span", { class: "what" }, one.title),
    make("span", { class: "what" }, seen || "no details"),
    make("span", { class: "time soft" }, `${one.seconds.toFixed(1)} s`));
}

const rows = verify.results.map((one, place) => ({ one, text: view.texts[place],
  words: [one.subject.name, one.check, one.title, one.code, view.texts[place]].join("\n").toLowerCase() }));
let showsAll = false;

function filter() {
  const searched = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const [state, kind, check] = ["state", "kind", "check"].map((id) => $(id).value);
  const left = rows.filter((row) => (!state || stateOf(row.one) === state) && (!kind || row.one.subject.kind === kind)
    && (!check || row.one.check === check) && searched.every((word) => row.words.includes(word)));
  const drawnRows = showsAll ? left : left.slice(0, SHOWN_AT_ONCE);
  $("rows").replaceChildren(...drawnRows.map(drawRow));
  $("more").hidden = drawnRows.length === left.length;
  $("more").textContent = `Show all ${left.length.toLocaleString("en")}`;
  $("count").textContent = `${left.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")} results`;
}

function showAll() {
  showsAll = true;
  filter();
}

function fillSelect(id, options) {
  $(id).append(make("option", {}, "all"), ...options.map(([value, text]) => make("option", { value }, text)));
  $(id).firstChild.value = "";
}

const distinct = (values) => [...new Map(values).entries()];
fillSelect("state", distinct(rows.map(({ one }) => [stateOf(one), wordOf(one)])));
fillSelect("kind", distinct(rows.map(({ one }) => [one.subject.kind, { host: "hosts", vm: "VMs", pair: "pairs", training: "all VMs together" }[one.subject.kind]])));
fillSelect("check", distinct(rows.map(({ one }) => [one.check, one.check])).sort());
drawFailed();
$("matrices").append(...view.matrices.map(drawMatrix));
$("matrices").hidden = !view.matrices.length;
drawHistory();
$("codes").hidden = !view.codes.length;
$("codes").querySelector("dl").append(...view.codes.flatMap((row) => [make("dt", { id: row.code, tabindex: "-1" }, `${row.code} ${row.title}`),
  make("dd", {}, row.meaning), make("dd", { class: "soft" }, `\u2192 ${row.remedy}`),
  make("dd", { class: "soft" }, "more: ", make("code", {}, `vgpu-cfg explain ${row.code}`))]));
$("needed").textContent = data.needed;
filter();
for (const id of ["search", "state", "kind", "check"]) $(id).addEventListener("input", filter);
$("more").addEventListener("click", showAll);
addEventListener("beforeprint", showAll);
if (location.hash) $(location.hash.slice(1))?.scrollIntoView();
