A run refuses tables that another release or format wrote otherwise, and tables whose checkpoint was removed or is older, where it wrote batches twice or left them out without a word.
