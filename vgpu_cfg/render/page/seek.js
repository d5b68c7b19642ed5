// A search through sections of rows: of a section that is named all is seen, else the rows with the words.
const field = document.getElementById("search");
const groups = [...document.querySelectorAll(".of")].map((element) => ({ element, name: element.ariaLabel.toLowerCase(),
  rows: [...element.querySelectorAll("tbody tr")].map((row) => ({ row, text: row.textContent.toLowerCase() })) }));
const most = groups.reduce((sum, group) => sum + group.rows.length, 0);

function seek() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const { element, name, rows } of groups) {
    let seen = 0;
    for (const { row, text } of rows) {
      row.hidden = !words.every((word) => name.includes(word) || text.includes(word));
      seen += !row.hidden;
    }
    element.hidden = !seen;
    count += seen;
  }
  document.getElementById("count").textContent = `${count.toLocaleString("en")} of ${most.toLocaleString("en")} rows`;
}

if (field) {
  field.addEventListener("input", seek);
  seek();
}
