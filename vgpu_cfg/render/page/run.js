drawChanges(data.plan, document.getElementById("changes"));
