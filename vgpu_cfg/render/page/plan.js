// The estate before and after a plan, one picture that is turned.
const { told, before, after } = data;
for (const mark of data.marks) marks[mark.subject].set(mark.name, { sign: mark.sign, word: mark.words, kind: mark.kind });

const versions = [
  new Map(before.clusters.flatMap(([, found]) => found.map((host) => [host.about.name, host]))), null];
versions[1] = new Map([...versions[0], ...Object.entries(after.hosts)]);

const touched = new Set([...Object.keys(after.hosts), ...marks.host.keys()]);
for (const [name, host] of versions[0]) {
  if (host.nodes.some((node) => node.gpus.some((gpu) => gpu.pieces.some((piece) => marks.vm.has(piece.vm))))) touched.add(name);
}
const scope = make("select", { id: "scope" }, make("option", { value: "touched" }, "that change"), make("option", { value: "" }, "all"));
scope.lastChild.value = "";
if (!touched.size) scope.value = "";
$("search").closest("section").insertBefore(make("label", {}, "Hosts ", scope), $("cluster").parentElement);
wantsHost = (record) => !scope.value || touched.has(record.name);
scope.addEventListener("input", filter);
FILTERS.push("scope");

$("legend").after(make("ul", { class: "legend signs", "aria-label": "Legend of marks" },
  ...[["+", "new", "new"], ["→", "moved", "moved"], ["↻", "cycled", "power cycle, or switched"], ["~", "changed", "changed"], ["-", "deleted", "deleted"]]
    .filter(([, kind]) => data.marks.some((mark) => mark.kind === kind))
    .map(([sign, kind, word]) => make("li", {}, make("span", { class: `sign mark-${kind}` }, sign), word))));

const turn = $("turn");
function showTurn() {
  const isAfter = turn.value === "1";
  const sums = isAfter ? after.totals : before.totals;
  turn.setAttribute("aria-valuetext", isAfter ? "after" : "before");
  $("when").textContent = `${isAfter ? "After" : "Before"}: ${sums.vms.toLocaleString("en")} ${sums.vms === 1 ? "VM" : "VMs"} on GPUs, ${sums.idle.toLocaleString("en")} idle, ${sizeText(sums.free_mib)} free`;
  turnEstate(versions[turn.value], isAfter ? after.vms : before.vms);
}
const modes = (version) => new Map([...version].flatMap(([name, host]) => host.nodes.flatMap((node) => node.gpus.map((gpu) => [`${name} ${gpu.pci_id}`, gpu.mode]))));
const [modesBefore, modesAfter] = versions.map(modes);
drawEstate(before);
for (const one of gpus) {
  const key = `${one.host.name} ${one.gpu.pci_id}`;
  if (modesBefore.get(key) !== modesAfter.get(key)) one.turns = `${modesBefore.get(key)} to ${modesAfter.get(key)}`;
}
turn.addEventListener("input", showTurn);
turn.value = "1";
showTurn();
drawChanges(told.plan, $("changes"));
