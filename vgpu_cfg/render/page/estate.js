// The picture of an estate: what is seen is drawn, and the rest when it comes near. Sums come from the file,
// those by cluster and board from its GPUs.

const $ = (id) => document.getElementById(id);
const shortPci = (pci) => pci.replace(/^0000:/, "");
const to = (kind, ...names) => `#${kind}=${names.map(encodeURIComponent).join("/")}`;

// One record for each host and GPU, with what a search looks through and the element, once it is drawn.
const hosts = [];
const gpus = [];
let vms = new Map();

// What a page says of VMs and hosts beside what they hold: by name, each {sign, word, kind}.
const marks = { vm: new Map(), host: new Map() };
// Which hosts a page wants to be seen, beside those that its search and filters leave.
let wantsHost = () => true;
// Whether the hosts of more than so many are hidden until a cluster is opened, or a filter is set.
let folds = false;
const MANY = 40;

function describeGpu(one) {
  const { gpu, host: record } = one;
  one.used = gpu.pieces.filter((piece) => piece.kind === "used");
  const words = one.used.flatMap((piece) => [piece.vm, piece.profile, vms.get(piece.vm)?.plan ?? ""]);
  one.use = gpu.obstacle ? "closed" : one.used.length ? "in use" : "idle";
  one.text = [record.name, record.cluster, gpu.pci_id, gpu.board, gpu.mode, gpu.label, ...words].join("\n").toLowerCase();
}

function takeEstate(estate) {
  vms = new Map(estate.vms.map((vm) => [vm.name, vm]));
  for (const [cluster, found] of estate.clusters) {
    for (const host of found) {
      const record = { host, cluster, name: host.about.name, gpus: [], element: null, body: null };
      hosts.push(record);
      for (const gpu of host.nodes.flatMap((node) => node.gpus)) {
        const one = { gpu, host: record, element: null, matches: true };
        describeGpu(one);
        record.gpus.push(one);
        gpus.push(one);
      }
      record.text = [record.name, cluster, host.about.model, host.about.state].join("\n").toLowerCase();
    }
  }
}

// Show the same hosts as they are at another time: `found` has some by name, all others are as in `estate`.
function turnEstate(found, foundVms) {
  vms = new Map(foundVms.map((vm) => [vm.name, vm]));
  for (const record of hosts) {
    record.host = found.get(record.name);
    const places = new Map(record.host.nodes.flatMap((node) => node.gpus).map((gpu) => [gpu.pci_id, gpu]));
    for (const one of record.gpus) {
      one.gpu = places.get(one.gpu.pci_id);
      describeGpu(one);
    }
  }
  countHues();
  for (const record of hosts) {
    if (record.body.childElementCount) {
      record.body.replaceChildren();
      drawHost(record);
    }
  }
  filter();
}

// What a piece is coloured by: the most frequent seven get a hue of their own, others share the grey.
const COLOURS = {
  profile: (one) => one.piece.profile || "whole GPU",
  plan: (one) => vms.get(one.piece.vm)?.plan || "no plan",
  mode: (one) => one.gpu.mode,
  board: (one) => one.gpu.board,
  VM: (one) => one.piece.vm,
};
let hueOf = new Map();

function countHues() {
  const counts = new Map();
  const key = COLOURS[$("colour").value];
  for (const { gpu, used } of gpus) {
    for (const piece of used) counts.set(key({ gpu, piece }), (counts.get(key({ gpu, piece })) ?? 0) + 1);
  }
  const names = [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
  hueOf = new Map(names.map(([name], place) => [name, Math.min(place, 7)]));
  const item = (classes, text) => make("li", {}, make("span", { class: `swatch ${classes}` }), text);
  const rows = names.slice(0, 7).map(([name, count], hue) => item(`used hue-${hue}`, `${name} (${count})`));
  if (names.length > 7) rows.push(item("used hue-7", `${names.length - 7} others`));
  rows.push(item("free", "free"), item("bound", "locked: usable only by the vGPU size already running on the GPU"), item("lost", "lost: no profile can use it"),
    item("closed", "closed: no workloads can start"));
  $("legend").replaceChildren(...rows);
}

function drawPiece(one, piece) {
  const width = `${(100 * piece.size) / one.gpu.units}%`;
  let made;
  if (piece.kind === "used") {
    const key = COLOURS[$("colour").value]({ gpu: one.gpu, piece });
    const name = piece.vm || "a VM that could not be read";
    const mark = marks.vm.get(piece.vm);
    const told = `${piece.label} ${name}${piece.profile && piece.profile !== piece.label ? `, ${piece.profile}` : ""}${mark ? `: ${mark.word}` : ""}`;
    made = make("a", { class: `piece used hue-${hueOf.get(key)}${mark ? ` mark-${mark.kind}` : ""}`, href: to("vm", piece.vm), title: told, "aria-label": told },
      make("span", { class: "size", "data-sign": mark?.sign }, piece.label), " ", make("span", { class: "who" }, name));
  } else {
    const words = { free: "free", bound: "locked to the vGPU size running on it", lost: "lost", closed: "closed" }[piece.kind];
    made = make("div", { class: `piece ${piece.kind}`, title: `${Number(piece.size.toFixed(1))} ${one.gpu.unit} ${words}` });
  }
  made.style.flexBasis = width;
  return made;
}

function drawStrip(one) {
  const strip = make("div", { class: "strip" });
  strip.append(...one.gpu.pieces.map((piece) => drawPiece(one, piece)));
  return strip;
}

function drawGpu(one) {
  const { gpu } = one;
  const about = [one.turns ?? (gpu.mode === "unknown" ? "" : gpu.mode), gpu.nvlink && `NVLink ${gpu.nvlink}`].filter(Boolean).join(" · ");
  one.strip = drawStrip(one);
  one.element = make("div", { class: "gpu" },
    make("p", { class: "line" },
      make("span", {}, make("a", { href: to("gpu", one.host.name, gpu.pci_id) }, make("b", {}, gpu.board), ` ${shortPci(gpu.pci_id)}`)),
      make("span", { class: "soft" }, about)),
    one.strip,
    make("p", { class: "soft" }, gpu.obstacle ? "" : gpu.free === "none" || !gpu.free ? "none free" : `free: ${gpu.free}`),
    gpu.obstacle ? make("p", { class: "why" }, gpu.obstacle) : "",
    ...gpu.stranded.map((text) => make("p", { class: gpu.lost_mib ? "why" : "soft" }, text)));
  one.element.classList.toggle("faded", !one.matches);
  return one.element;
}

function drawNode(record, node, places) {
  const about = node.cores ? ` · ${node.cores} cores, ${sizeText(node.memory_mib)}` : "";
  const nics = node.nics.map((nic) => make("span", {},
    `${nic.device || shortPci(nic.pci_id)}${nic.speed_mbps ? ` ${nic.speed_mbps / 1000}G` : ""}${nic.use === "passthrough" ? " passthrough" : ""}`));
  return make("div", { class: "node" },
    make("p", { class: "soft" }, `${node.node === null ? "NUMA node unknown" : `NUMA node ${node.node}`}${about}`),
    ...node.gpus.map((gpu) => drawGpu(places.get(gpu))),
    nics.length ? make("p", { class: "nics soft" }, "NICs:", ...nics) : "");
}

function drawHost(record) {
  if (record.body.childElementCount) return;
  const places = new Map(record.gpus.map((one) => [one.gpu, one]));
  record.body.append(...record.host.nodes.map((node) => drawNode(record, node, places)));
  if (!record.gpus.length) record.body.append(make("p", { class: "soft" }, "no GPU"));
  record.body.style.minHeight = "";
}

const near = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (entry.isIntersecting) {
      near.unobserve(entry.target);
      drawHost(entry.target.record);
    }
  }
}, { rootMargin: "900px" });

function drawFrames() {
  const sections = new Map();
  for (const record of hosts) {
    const { about } = record.host;
    record.body = make("div", {});
    record.body.style.minHeight = `${2 + record.host.nodes.length * 2.5 + record.gpus.length * 5.2}rem`;
    record.element = make("section", { class: "host", "aria-label": about.name },
      make("header", {},
        make("h3", {}, make("a", { href: to("host", about.name) }, about.name)),
        about.state === "ok" ? "" : make("span", { class: "state" }, about.state),
        marks.host.has(about.name) ? make("span", { class: "state" }, marks.host.get(about.name).word) : "",
        make("span", { class: "soft" }, `ESXi ${about.version} · ${about.cores} cores · ${sizeText(about.memory_mib)}`)),
      record.body);
    record.element.record = record;
    if (!sections.has(record.cluster)) sections.set(record.cluster, []);
    sections.get(record.cluster).push(record);
  }
  for (const [cluster, records] of sections) {
    const count = records.reduce((sum, one) => sum + one.gpus.length, 0);
    const unfold = make("button", { type: "button", class: "quiet", hidden: "hidden" }, "Show hosts");
    unfold.setAttribute("aria-label", `Show hosts of ${cluster || "no cluster"}`);
    unfold.addEventListener("click", () => openSection(section));
    const section = make("section", { class: "cluster" },
      make("header", {},
        make("h2", {}, cluster ? make("a", { href: to("cluster", cluster) }, cluster) : "Hosts without a cluster"),
        make("p", { class: "soft" }, `${records.length} ${records.length === 1 ? "host" : "hosts"}, ${count} ${count === 1 ? "GPU" : "GPUs"}`), unfold),
      make("div", { class: "hosts" }));
    section.unfold = unfold;
    section.lastChild.append(...records.map((one) => one.element));
    records.forEach((one) => { one.section = section; near.observe(one.element); });
    $("picture").append(section);
  }
  $("picture").append(make("p", { class: "none soft", id: "none", hidden: "hidden" }, "No matches. Clear the search, or set the filters to all."));
}

function openSection(section) {
  section.isOpened = true;
  section.classList.remove("folded");
  section.unfold.hidden = true;
}

// The sums of each board in each cluster, of a large estate; a click shows its hosts.
function drawSums() {
  if (hosts.length <= MANY) return;
  const sums = new Map();
  for (const one of gpus) {
    const key = JSON.stringify([one.host.cluster, one.gpu.board]);
    if (!sums.has(key)) sums.set(key, { hosts: new Set(), gpus: 0, idle: 0, closed: 0, free: 0, all: 0 });
    const sum = sums.get(key);
    sum.hosts.add(one.host);
    sum.gpus += 1;
    sum.idle += one.use === "idle";
    sum.closed += one.use === "closed";
    sum.free += one.gpu.free_mib;
    sum.all += one.gpu.memory_mib;
  }
  const isAnyClosed = gpus.some((one) => one.use === "closed");
  const count = (value) => make("td", { class: "number" }, value.toLocaleString("en"));
  const rows = [...sums].sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, sum]) => {
    const [cluster, board] = JSON.parse(key);
    const show = make("button", { type: "button", class: "quiet" }, "Show");
    show.setAttribute("aria-label", `Show ${board} in ${cluster || "hosts without a cluster"}`);
    show.addEventListener("click", () => {
      clearFilters();
      $("cluster").value = cluster;
      $("board").value = board;
      filter();
      $("picture").scrollIntoView({ block: "start" });
    });
    return make("tr", {}, make("th", { scope: "row" }, cluster || "no cluster"), make("td", {}, board), count(sum.hosts.size), count(sum.gpus),
      count(sum.idle), ...(isAnyClosed ? [count(sum.closed)] : []), make("td", { class: "number" }, `${sizeText(sum.free)} of ${sizeText(sum.all)}`), make("td", {}, show));
  });
  const heads = ["Cluster", "Board", "Hosts", "GPUs", "Idle", ...(isAnyClosed ? ["Closed"] : []), "Memory free", ""];
  $("picture").before(make("div", { class: "sums scroll", tabindex: "0", role: "region", "aria-label": "Totals by cluster and board" },
    make("table", {}, make("thead", {}, make("tr", {}, ...heads.map((one) => (one ? make("th", { scope: "col" }, one) : make("td", {}, ""))))),
      make("tbody", {}, ...rows))));
}

function filter() {
  const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const [cluster, board, mode, use] = ["cluster", "board", "mode", "use"].map((id) => $(id).value);
  const isAll = !words.length && !board && !mode && !use;
  let countGpus = 0;
  let countHosts = 0;
  const busy = new Set();
  for (const record of hosts) {
    let isSeen = false;
    const isWanted = wantsHost(record);
    for (const one of record.gpus) {
      one.matches = isWanted && (!cluster || record.cluster === cluster) && (!board || one.gpu.board === board)
        && (!mode || one.gpu.mode === mode) && (!use || one.use === use) && words.every((word) => one.text.includes(word));
      one.element?.classList.toggle("faded", !one.matches);
      isSeen ||= one.matches;
      countGpus += one.matches;
    }
    if (!record.gpus.length) {
      isSeen = isWanted && (!cluster || record.cluster === cluster) && !board && !mode && !use
        && (isAll || words.every((word) => record.text.includes(word)));
    }
    record.element.hidden = !isSeen;
    countHosts += isSeen;
    if (isSeen) busy.add(record.section);
  }
  const isFolded = folds && isAll && !cluster && countHosts > MANY;
  for (const section of $("picture").querySelectorAll(".cluster")) {
    section.hidden = !busy.has(section);
    section.classList.toggle("folded", isFolded && !section.isOpened);
    section.unfold.hidden = !section.classList.contains("folded");
  }
  $("none").hidden = countHosts > 0;
  $("count").textContent = `${countGpus.toLocaleString("en")} of ${gpus.length.toLocaleString("en")} GPUs on ${countHosts.toLocaleString("en")} ${countHosts === 1 ? "host" : "hosts"}`;
}

function fillSelect(id, values, all) {
  const options = [...new Set(values)].filter(Boolean).sort();
  $(id).append(...(all ? [make("option", {}, all)] : []), ...options.map((one) => make("option", { value: one }, one)));
  if (all) $(id).firstChild.value = "";
}

// What stands behind "#": the kind and the names, or nothing.
function chosen() {
  const [kind, names] = location.hash.slice(1).split("=");
  try {
    return names === undefined ? [] : [kind, ...names.split("/").map(decodeURIComponent)];
  } catch {
    return [];
  }
}

const link = (kind, text, ...names) => make("a", { href: to(kind, ...names) }, text);

function describe([kind, name, pci]) {
  if (kind === "host") {
    const record = hosts.find((one) => one.name === name);
    if (!record) return null;
    const { about } = record.host;
    return { title: name, at: [record], rows: [["cluster", about.cluster || "none"], ["model", about.model], ["ESXi", `${about.version}, build ${about.build}`],
      ["state", about.state], ["graphics", [about.graphics_type, about.assignment_policy].filter(Boolean).join(", ")],
      ["CPU", `${about.cores} cores, ${about.numa_nodes} NUMA nodes`], ["memory", sizeText(about.memory_mib)],
      ["GPUs", `${about.gpus}`], ["VMs on", `${about.vms_on} of ${about.vms}`]] };
  }
  if (kind === "gpu") {
    const one = gpus.find((found) => found.host.name === name && found.gpu.pci_id === pci);
    if (!one) return null;
    const { gpu } = one;
    return { title: `${gpu.board} ${shortPci(gpu.pci_id)}`, at: [one.host], gpu: one, rows: [["host", link("host", name, name)], ["slot", gpu.label], ["mode", gpu.mode],
      ["framebuffer", sizeText(gpu.memory_mib)], ["free", gpu.obstacle ? gpu.obstacle : `${sizeText(gpu.free_mib)}${gpu.free ? `: ${gpu.free}` : ""}`],
      ["lost", gpu.lost_mib ? sizeText(gpu.lost_mib) : ""], ["locked", gpu.bound_mib ? sizeText(gpu.bound_mib) : ""],
      ["NVLink", gpu.nvlink], ["near NICs", gpu.nics], ...one.used.map((piece) => [piece.label, link("vm", piece.vm || "could not be read", piece.vm)])] };
  }
  if (kind === "vm") {
    const places = gpus.filter((one) => one.used.some((piece) => piece.vm === name));
    if (!places.length) return null;
    const vm = vms.get(name);
    return { title: name, at: places.map((one) => one.host), gpu: places[0], rows: [["power", vm?.power ?? "unknown"], ["plan", vm?.plan || "not owned by a plan"],
      ...places.flatMap((one) => one.used.filter((piece) => piece.vm === name).map((piece) => [piece.label,
        link("gpu", `${one.host.name}, ${one.gpu.board} ${shortPci(one.gpu.pci_id)}`, one.host.name, one.gpu.pci_id)]))] };
  }
  if (kind === "cluster") {
    const records = hosts.filter((one) => one.cluster === name);
    return records.length ? { title: name, at: records, rows: [["hosts", `${records.length}`], ["GPUs", `${records.reduce((sum, one) => sum + one.gpus.length, 0)}`]] } : null;
  }
  return null;
}

function showChosen() {
  document.querySelectorAll(".here").forEach((one) => one.classList.remove("here"));
  const named = chosen();
  const found = describe(named);
  $("detail").hidden = !named.length || (!found && !["host", "gpu", "vm", "cluster"].includes(named[0]));
  if ($("detail").hidden) return;
  const close = make("button", { type: "button", class: "quiet" }, "Close");
  close.addEventListener("click", forget);
  const title = make("h2", { id: "detail-title", tabindex: "-1" }, found ? found.title : named.slice(1).join("/"));
  const rows = found ? found.rows.filter(([, value]) => value) : [["", "not in this diagram"]];
  $("detail").replaceChildren(make("header", {}, title, close),
    make("dl", {}, ...rows.flatMap(([term, value]) => [make("dt", {}, term), make("dd", {}, value)])),
    ...(found && ["host", "vm"].includes(named[0]) ? found.at.flatMap((record) => drawWiring(record.host, named[0] === "vm" ? named[1] : "")) : []));
  if (found) {
    const [record] = found.at;
    if (record.element.hidden) { clearFilters(); }
    openSection(record.section);
    drawHost(record);
    (found.gpu?.element ?? record.element).classList.add("here");
    record.element.scrollIntoView({ block: "start" });
  }
  title.focus({ preventScroll: true });
}

function forget() {
  const [record] = describe(chosen())?.at ?? [];
  history.replaceState(null, "", location.pathname + location.search);
  showChosen();
  record?.element.querySelector("a")?.focus({ preventScroll: true });
}

const FILTERS = ["search", "cluster", "board", "mode", "use"];

function clearFilters() {
  for (const id of FILTERS) $(id).value = "";
  filter();
}

function drawEstate(estate) {
  takeEstate(estate);
  fillSelect("cluster", hosts.map((one) => one.cluster), "all");
  fillSelect("board", gpus.map((one) => one.gpu.board), "all");
  fillSelect("mode", gpus.map((one) => one.gpu.mode), "all");
  fillSelect("use", ["in use", "idle", "closed"], "all");
  $("colour").append(...Object.keys(COLOURS).map((one) => make("option", { value: one }, one)));
  countHues();
  drawFrames();
  drawSums();
  filter();
  for (const id of FILTERS) $(id).addEventListener("input", filter);
  $("colour").addEventListener("input", () => {
    countHues();
    for (const one of gpus) {
      if (one.strip) {
        const strip = drawStrip(one);
        one.strip.replaceWith(strip);
        one.strip = strip;
      }
    }
  });
  addEventListener("hashchange", showChosen);
  addEventListener("beforeprint", () => hosts.forEach(drawHost));
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !$("detail").hidden) forget();
    if (event.key === "/" && !/INPUT|SELECT/.test(document.activeElement.tagName)) {
      event.preventDefault();
      $("search").focus();
    }
  });
  showChosen();
}
