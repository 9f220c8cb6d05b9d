`stomprelay-pipeline report --compare day` (or `week`) says what the main figures, destinations and clients were so long before. What stands out is named in sentences at the top of the page.
