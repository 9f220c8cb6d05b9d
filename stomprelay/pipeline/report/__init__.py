"""The report: one HTML file that shows what is in the tables.

- `command`: the command `report`
- `gather`: makes findings from the tables, also of the day or week before
- `findings`: the data of the page, without Spark
- `indicators`: the figures with thresholds and changes
- `page`: the whole page, with `report.html`, `summary.html` (what stands out), `sections.html` (charts and lists),
  `parts.html` (elements of these), `report.css` and `report.js`
- `plot`: the geometry of charts
- `text`: numbers, times and names as people read them
"""
