// The estate as it is, without what is thought away, and if that died.
drawTurns(data.before, [
  { when: "Now", hosts: {}, vms: data.before.vms, totals: data.before.totals, marks: data.turns[0].marks },
  ...data.turns,
]);
