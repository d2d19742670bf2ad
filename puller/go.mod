module harbinger.dev/puller

go 1.24
