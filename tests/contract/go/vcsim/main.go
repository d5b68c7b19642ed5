// Command vcsim runs govmomi's vCenter simulator as the third-party judge of the contract tests.
//
// When it is ready it prints one line of JSON on standard output; it runs until
// standard input is closed, so that it cannot outlive the test run that started it.
//
// govmomi's own vcsim command lives in a nested module and cannot be built from
// the module proxy; the simulator library can.
package main

import (
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	_ "github.com/vmware/govmomi/pbm/simulator" // the /pbm endpoint: storage policies
	"github.com/vmware/govmomi/simulator"
	_ "github.com/vmware/govmomi/vapi/simulator" // the /rest and /api endpoints: tags
	"github.com/vmware/govmomi/vim25/soap"
)

// ready is what the tests are told about the running simulator.
type ready struct {
	URL         string `json:"url"`
	Host        string `json:"host"`
	Port        string `json:"port"`
	User        string `json:"user"`
	Password    string `json:"password"`
	APIVersion  string `json:"api_version"`
	Thumbprint  string `json:"thumbprint"`  // SHA-256 of the certificate, colon separated
	Certificate string `json:"certificate"` // PEM
}

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "vcsim:", err)
		os.Exit(1)
	}
}

func serve() error {
	model := simulator.VPX()
	user := flag.String("user", "user", "the only user that may log in; a name with @ never can")
	password := flag.String("password", "pass", "password of the user")
	listen := flag.String("listen", "127.0.0.1:0", "address to listen on; port 0 picks a free one")
	// Exactly this spelling: clients negotiate other ones down to 6.5.
	apiVersion := flag.String("api-version", "8.0.3.0", "API version that the server offers")
	taskDelay := flag.Int("task-delay", 0, "milliseconds that every task takes at least")
	flag.IntVar(&model.ClusterHost, "hosts", model.ClusterHost, "hosts per cluster")
	flag.IntVar(&model.Host, "standalone-hosts", model.Host, "hosts outside of clusters")
	flag.IntVar(&model.Machine, "vms", model.Machine, "virtual machines per resource pool")
	flag.IntVar(&model.Portgroup, "portgroups", model.Portgroup, "distributed portgroups")
	flag.IntVar(&model.Datastore, "datastores", model.Datastore, "datastores")
	flag.Parse()

	simulator.TaskDelay.Delay = *taskDelay
	about := &model.ServiceContent.About
	about.ApiVersion = *apiVersion
	about.Version = strings.TrimSuffix(*apiVersion, ".0")
	about.FullName = fmt.Sprintf("%s %s build-%s", about.Name, about.Version, about.Build)
	defer model.Remove()
	if err := model.Create(); err != nil {
		return fmt.Errorf("create the model: %w", err)
	}

	model.Service.RegisterEndpoints = true
	model.Service.TLS = new(tls.Config)
	model.Service.Listen = &url.URL{Host: *listen, User: url.UserPassword(*user, *password)}
	server := model.Service.NewServer()
	defer server.Close()

	certificate := server.Certificate()
	announcement := ready{
		URL:         (&url.URL{Scheme: "https", Host: server.URL.Host, Path: server.URL.Path}).String(),
		Host:        server.URL.Hostname(),
		Port:        server.URL.Port(),
		User:        *user,
		Password:    *password,
		APIVersion:  *apiVersion,
		Thumbprint:  soap.ThumbprintSHA256(certificate),
		Certificate: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})),
	}
	if err := json.NewEncoder(os.Stdout).Encode(announcement); err != nil {
		return fmt.Errorf("announce the server: %w", err)
	}

	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}
