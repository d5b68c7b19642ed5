// One estate at several times, a picture that is turned. Of each time `hosts` are those that look otherwise than in `before`,
// by name; `marks` say what becomes of hosts and VMs. The second time is shown first.
const MARKS = [["+", "new", "new"], ["→", "moved", "moved"], ["↻", "cycled", "power cycle, or powered on or off"], ["~", "changed", "changed"],
  ["-", "deleted", "deleted"], ["×", "down", "down"]];

function takeMarks(found) {
  for (const kept of Object.values(marks)) kept.clear();
  for (const mark of found) marks[mark.subject].set(mark.name, { sign: mark.sign, word: mark.words, kind: mark.kind });
}

function drawTurns(before, times) {
  const first = new Map(before.clusters.flatMap(([, found]) => found.map((host) => [host.about.name, host])));
  const versions = times.map((time) => new Map([...first, ...Object.entries(time.hosts)]));
  const marked = times.flatMap((time) => time.marks);
  const named = new Set(marked.filter((mark) => mark.subject === "vm").map((mark) => mark.name));

  const touched = new Set([...times.flatMap((time) => Object.keys(time.hosts)), ...marked.filter((mark) => mark.subject === "host").map((mark) => mark.name)]);
  for (const [name, host] of first) {
    if (host.nodes.some((node) => node.gpus.some((gpu) => gpu.pieces.some((piece) => named.has(piece.vm))))) touched.add(name);
  }
  const scope = make("select", { id: "scope" }, make("option", { value: "touched" }, "changed"), make("option", { value: "" }, "all"));
  scope.lastChild.value = "";
  if (!touched.size) scope.value = "";
  $("search").closest("section").insertBefore(make("label", {}, "Hosts ", scope), $("cluster").parentElement);
  wantsHost = (record) => !scope.value || touched.has(record.name);
  scope.addEventListener("input", filter);
  FILTERS.push("scope");

  $("legend").after(make("ul", { class: "legend signs", "aria-label": "Legend of marks" },
    ...MARKS.filter(([, kind]) => marked.some((mark) => mark.kind === kind))
      .map(([sign, kind, word]) => make("li", {}, make("span", { class: `sign mark-${kind}` }, sign), word))));

  const turn = $("turn");
  function showTurn() {
    const time = times[turn.value];
    const sums = time.totals;
    turn.setAttribute("aria-valuetext", time.when.toLowerCase());
    $("when").textContent = `${time.when}: ${sums.vms.toLocaleString("en")} ${sums.vms === 1 ? "VM" : "VMs"} on GPUs, ${sums.idle.toLocaleString("en")} idle, ${sizeText(sums.free_mib)} free`;
    takeMarks(time.marks);
    turnEstate(versions[turn.value], time.vms);
  }
  const modes = versions.map((version) => new Map([...version].flatMap(([name, host]) => host.nodes.flatMap((node) => node.gpus.map((gpu) => [`${name} ${gpu.pci_id}`, gpu.mode])))));
  takeMarks(marked);
  drawEstate(before);
  for (const one of gpus) {
    const own = new Set(modes.map((version) => version.get(`${one.host.name} ${one.gpu.pci_id}`)));
    if (own.size > 1) one.turns = [...own].join(" to ");
  }
  turn.addEventListener("input", showTurn);
  turn.value = "1";
  showTurn();
}
