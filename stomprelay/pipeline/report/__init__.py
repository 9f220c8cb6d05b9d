"""The report: one HTML file that shows what is in the tables.

- `command`: the command `report`
- `gather`, `queries`: from the tables to findings; `previous`: what was a day or a week before
- `findings`: what the page is made from, without Spark
- `indicators`: the figures with thresholds and changes; `highlights`: what stands out, in sentences
- `page`: the page as a whole, with `report.html`, `report.css` and `report.js`
- `timeseries`, `outages`, `outcomes`, `rankings`: its charts and lists
- `figure`, `plot`: a chart with all that belongs to it; axes, lines and layers
- `markup`, `text`: HTML from values; numbers, times and names as people read them
"""
