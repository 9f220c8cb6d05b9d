`admin` takes orders from its own page in a browser, where `Origin` and `Sec-Fetch-Site` say that it is; those of any other page are refused as before.
