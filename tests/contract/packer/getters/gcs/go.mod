module github.com/hashicorp/go-getter/gcs/v2

go 1.23.0
