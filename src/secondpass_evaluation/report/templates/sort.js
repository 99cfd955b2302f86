// Makes the headings of tables buttons that sort the rows. Without it the tables are complete.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const original = [...body.rows];
  const value = (row, column) => {
    const text = row.cells[column].textContent.trim();
    const number = parseFloat(text.replace(/[,<%\s]/g, ""));
    return { text, number };
  };
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const isText = head.classList.contains("word");
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const first = isText ? "ascending" : "descending";
      const second = isText ? "descending" : "ascending";
      const old = head.getAttribute("aria-sort");
      const next = old === first ? second : old === second ? null : first;
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      if (next) head.setAttribute("aria-sort", next);
      const sign = next === "descending" ? -1 : 1;
      const rows = original.map((row) => [row, value(row, column)]);
      if (next) rows.sort(([, a], [, b]) => {
        if (isText) return sign * a.text.localeCompare(b.text, undefined, { numeric: true });
        // Cells without a number come last in either direction.
        if (isNaN(a.number) || isNaN(b.number)) return isNaN(a.number) - isNaN(b.number);
        return sign * (a.number - b.number);
      });
      body.append(...rows.map(([row]) => row));
    });
  });
}
