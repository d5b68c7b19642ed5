module github.com/hashicorp/go-getter/s3/v2

go 1.23.0
