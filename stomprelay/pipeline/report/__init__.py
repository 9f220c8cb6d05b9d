"""The report: one HTML file that shows what is in the tables.

- `command`: the command `report`
- `gather`: from the tables to findings, and what was a day or a week before
- `findings`: what the page is made from, without Spark
- `indicators`: the figures with thresholds and changes
- `page`: the page as a whole, with `report.html`, `summary.html` (what stands out), `sections.html` (charts and lists),
  `parts.html` (what these are made of), `report.css` and `report.js`
- `plot`: the geometry of charts
- `text`: numbers, times and names as people read them
"""
