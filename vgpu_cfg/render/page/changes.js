// Changes with their edits, by host and VM: a block is filled when it is opened, and all before printing.
function drawChanges(plan, place) {
  const subjects = new Map();
  plan.changes.forEach((change, at) => {
    const key = `${change.subject.kind} ${change.subject.name}`;
    if (!subjects.has(key)) subjects.set(key, []);
    subjects.get(key).push([at + 1, change]);
  });
  const numbers = new Map(plan.changes.map((change, at) => [change.id, at + 1]));
  const blocked = new Set(plan.blocked);
  const value = (one, text) => (one === null ? make("span", { class: "soft" }, text) : one);
  const drawOne = ([number, change]) => make("div", { class: "change" },
    make("p", {}, make("b", {}, `${number}. ${change.id}`), " ",
      make("span", { class: "soft" }, [change.needs.length ? `after ${change.needs.map((one) => numbers.get(one)).filter(Boolean).join(", ")}` : "",
        change.impact === "none" ? "" : change.impact, blocked.has(change.id) ? "blocked" : ""].filter(Boolean).join(" · "))),
    change.text ? make("p", {}, change.text) : "",
    make("dl", { class: "edits" }, ...change.edits.flatMap((edit) => [make("dt", {}, edit.key),
      make("dd", {}, edit.before === null ? "" : make("del", {}, edit.before), edit.before === null ? "" : " ", value(edit.after, "none"),
        edit.is_default ? make("span", { class: "soft" }, " (default)") : "", edit.note ? make("span", { class: "soft" }, ` ${edit.note}`) : "")])));
  const fill = (block, own) => {
    if (block.childElementCount === 1) block.append(...own.map(drawOne));
  };
  for (const own of subjects.values()) {
    const { subject } = own[0][1];
    const edits = own.reduce((sum, [, change]) => sum + change.edits.length, 0);
    const block = make("details", {}, make("summary", {}, make("b", {}, subject.name || subject.kind), " ",
      make("span", { class: "soft" }, `${own.length} ${own.length === 1 ? "change" : "changes"}, ${edits} ${edits === 1 ? "value" : "values"}`)));
    block.addEventListener("toggle", () => fill(block, own));
    addEventListener("beforeprint", () => { fill(block, own); block.open = true; });
    place.append(block);
  }
  if (!subjects.size) place.append(make("p", {}, "None."));
}
