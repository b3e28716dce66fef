print("nearshare")
