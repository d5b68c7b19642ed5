// The estate before and after a plan, and its changes.
const { told, before, after } = data;
drawTurns(before, [
  { when: "Before", hosts: {}, vms: before.vms, totals: before.totals, marks: data.marks },
  { when: "After", hosts: after.hosts, vms: after.vms, totals: after.totals, marks: data.marks },
]);
drawChanges(told.plan, $("changes"));
