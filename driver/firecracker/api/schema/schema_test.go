package schema

import (
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	for _, test := range []struct{ name, method, path, body, want string }{
		{"a drive", "PUT", "/drives/root", `{"drive_id":"root","path_on_host":"/root.img","is_root_device":false,"is_read_only":true}`, ""},
		{"a question", "GET", "/version", "", ""},
		{"about itself", "GET", "/", "", ""},
		{"an unknown field", "PUT", "/vsock", `{"guest_cid":3,"uds_path":"/v.sock","x":1}`, "x"},
		{"a field too few", "PUT", "/vsock", `{"guest_cid":3}`, "uds_path"},
		{"the host's own address", "PUT", "/vsock", `{"guest_cid":2,"uds_path":"/v.sock"}`, "guest_cid"},
		{"an odd number of processors", "PUT", "/machine-config", `{"vcpu_count":3,"mem_size_mib":128}`, "vcpu_count"},
		{"a drive that can be written to", "PUT", "/drives/a", `{"drive_id":"a","path_on_host":"/a","is_root_device":false,"is_read_only":false}`, "is_read_only"},
		{"another id in the body", "PUT", "/drives/a", `{"drive_id":"b","path_on_host":"/a","is_root_device":false,"is_read_only":true}`, "drive_id is b"},
		{"no id", "PUT", "/drives/", `{}`, "no such request"},
		{"a relative path", "PUT", "/boot-source", `{"kernel_image_path":"kernel"}`, "kernel_image_path"},
		{"a network device", "PUT", "/network-interfaces/eth0", `{"iface_id":"eth0","host_dev_name":"tap0"}`, "no such request"},
		{"a snapshot", "PUT", "/snapshot/create", `{}`, "no such request"},
		{"another action", "PUT", "/actions", `{"action_type":"SendCtrlAltDel"}`, "action_type"},
		{"no JSON", "PUT", "/entropy", `{`, "EOF"},
		{"a question with a body", "GET", "/", `{}`, "has a body"},
		{"two values", "PUT", "/entropy", `{}{}`, "invalid"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := Check(test.method, test.path, []byte(test.body))
			if test.want == "" {
				if err != nil {
					t.Error(err)
				}
			} else if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
