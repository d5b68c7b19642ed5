// How a host is wired: NUMA node, root port, PCIe switch, GPUs and NICs as a tree, with NVLink and ATS beside it.

const LINE = 25;
const WIDTH = 372;
const LANES = 46;
const LINK_TONES = { on: "good", off: "bad", pending: "warn", unknown: "warn" };
const wiredName = (row) => `${row.pci_id.replace(/^0000:/, "")} ${row.name || (row.kind === "gpu" ? "GPU" : "NIC")}`;

// The rows of the tree from the top, each with its depth and the row above it.
function wiredTree(wiring) {
  const lines = [];
  const known = new Map();
  const add = (key, parent, line) => {
    if (!known.has(key)) {
      known.set(key, { ...line, parent: known.get(parent), depth: parent === undefined ? 0 : known.get(parent).depth + 1, below: [] });
      if (parent === undefined) lines.push(known.get(key));
      else known.get(parent).below.push(known.get(key));
    }
    return key;
  };
  const nodes = [...new Set(wiring.map((row) => row.numa_node))].sort((a, b) => (a === null) - (b === null) || a - b);
  for (const node of nodes) {
    for (const row of wiring.filter((one) => one.numa_node === node)) {
      let above = add(`node ${node}`, undefined, { text: node === null ? "NUMA node unknown" : `NUMA node ${node}`, isUnknown: node === null });
      if (!row.bridges.length || !row.has_root) above = add(`unknown ${node}`, above, { text: "upstream device unknown", isUnknown: true });
      [...row.bridges].reverse().forEach((bridge, place) => {
        const what = place === 0 && row.has_root ? "root port" : row.has_root ? "PCIe switch" : "bridge";
        above = add(`${node} ${bridge}`, above, { text: `${what} ${bridge.replace(/^0000:/, "")}`, isUnknown: false });
      });
      add(`${node} ${row.pci_id}`, above, { text: wiredName(row), row, isUnknown: false });
    }
  }
  const flat = (line) => [line, ...line.below.flatMap(flat)];
  return lines.flatMap(flat);
}

const chainTone = (chain) => {
  const states = chain.links.map((link) => LINK_TONES[link.state]);
  return states.includes("bad") ? "bad" : states.includes("warn") ? "warn" : "good";
};

// An arc in a lane beside the tree, from one line to another.
function beside(lane, from, to, classes) {
  const [x, out] = [WIDTH - LANES, WIDTH - LANES + 8 + 7 * (lane % 5)];
  const [a, b] = [from * LINE + LINE / 2 + 1, to * LINE + LINE / 2 - 1];
  return drawn("path", { class: classes, d: `M${x} ${a}H${out}V${b}H${x}` });
}

function fitted(text, room) {
  const most = Math.floor(room / 6.9);
  return text.length > most ? `${text.slice(0, most - 1)}\u2026` : text;
}

// Return the drawing, its words, and the ATS chains; of one VM only what it has, where it is named.
function drawWiring(host, vm) {
  if (!host.wiring.length) return [];
  const chains = host.ats.filter((chain) => !vm || chain.vm === vm);
  const mine = (row) => vm && row.vms.includes(vm);
  const own = host.wiring.filter(mine);
  const nodes = new Set(own.map((row) => row.numa_node));
  const lines = wiredTree(host.wiring.filter((row) => !vm || mine(row) || nodes.has(row.numa_node)));
  const places = new Map(lines.flatMap((line, place) => line.row ? [[line.row.pci_id, place]] : []));
  const svg = drawn("svg", { viewBox: `0 0 ${WIDTH} ${lines.length * LINE}`, role: "img" });
  lines.forEach((line, place) => {
    const x = 8 + 15 * line.depth;
    const y = place * LINE;
    if (line.parent) {
      const from = lines.indexOf(line.parent);
      const isUnknown = line.isUnknown || line.parent.isUnknown;
      svg.append(drawn("path", { class: isUnknown ? "wire unknown" : "wire", d: `M${x - 8} ${from * LINE + LINE - 4}V${y + LINE / 2}H${x}` }));
    }
    if (line.row) svg.append(drawn("rect", { class: `box ${line.row.kind}${mine(line.row) ? " mine" : ""}`, x, y: y + 2, width: WIDTH - LANES - x, height: LINE - 4, rx: 4 }));
    const text = drawn("text", { x: x + 5, y: y + LINE / 2 + 4, class: line.row ? "" : "faint" }, fitted(line.text, WIDTH - LANES - x - 8));
    text.append(drawn("title", {}, line.text));
    svg.append(text);
  });
  let lane = 0;
  const joined = [];
  for (const row of host.wiring.filter((one) => one.nvlink && places.has(one.pci_id))) {
    // Each GPU is joined in the drawing to the next one of its domain; the words name all of them.
    const next = [row.pci_id, ...row.nvlink.peers].filter((pci) => places.has(pci)).sort().find((pci) => pci > row.pci_id);
    if (next) svg.append(beside(0, places.get(row.pci_id), places.get(next), `nvlink${row.nvlink.is_certain ? "" : " unknown"}`));
    const domain = [row.pci_id, ...row.nvlink.peers].sort();
    if (domain[0] === row.pci_id || !places.has(domain[0])) {
      const words = `NVLink${row.nvlink.is_certain ? "" : " perhaps"} (${row.nvlink.kind}, by ${row.nvlink.source}): ${domain.map((pci) => pci.replace(/^0000:/, "")).join(", ")}`;
      if (!joined.includes(words)) joined.push(words);
    }
  }
  for (const chain of chains) {
    lane += 1;
    const nic = places.get(chain.nic);
    for (const gpu of chain.gpus.filter((pci) => places.has(pci) && nic !== undefined)) {
      svg.append(beside(lane, Math.min(nic, places.get(gpu)), Math.max(nic, places.get(gpu)), `ats ${chainTone(chain)}`));
    }
  }
  const path = (line) => line.parent ? `${line.text}, below ${path(line.parent)}` : line.text;
  svg.setAttribute("aria-label", [...lines.filter((line) => line.row).map(path), ...joined].map(shown).join("; "));
  const told = chains.map((chain) => make("div", {},
    make("p", {}, make("b", { class: `sign ${chainTone(chain)}` }, { good: "ATS chain complete", warn: "ATS chain partly unknown", bad: "ATS chain broken" }[chainTone(chain)]),
      ` ${vm ? "" : `${chain.vm}, `}NIC ${chain.nic.replace(/^0000:/, "")}`),
    make("ul", { class: "links" }, ...chain.links.map((link) => make("li", { class: LINK_TONES[link.state] },
      make("b", {}, `${link.link}: ${link.state}`), ` ${link.why}`, link.remedy ? make("span", { class: "soft" }, ` \u2192 ${link.remedy}`) : "")))));
  const isAlone = vm && own.some((row) => row.kind === "gpu") && !chains.length;
  return [make("figure", { class: "wiring" }, make("figcaption", { class: "soft" }, `Wiring of ${host.about.name}, as far as reported`), svg,
    ...joined.map((words) => make("p", { class: "soft" }, words))), ...told,
    isAlone ? make("p", { class: "soft" }, "No ATS chain: no dedicated RDMA NIC next to the GPU") : ""].filter(Boolean);
}
