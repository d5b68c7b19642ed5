// A search through what differs: of a host or VM that is named all is seen, else the rows with the words.
const field = document.getElementById("search");
const groups = [...document.querySelectorAll(".of")].map((element) => ({ element, name: element.ariaLabel.toLowerCase(),
  rows: [...element.querySelectorAll("tbody tr")].map((row) => ({ row, text: row.textContent.toLowerCase() })) }));

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
  document.getElementById("count").textContent = `${count.toLocaleString("en")} of ${data.told.differences.length.toLocaleString("en")} values`;
}

if (field) {
  field.addEventListener("input", seek);
  seek();
}
