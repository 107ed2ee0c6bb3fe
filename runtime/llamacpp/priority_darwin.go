package llamacpp

import (
	"fmt"

	"github.com/ebitengine/purego"
)

// qosUtility may use every core; the class below it is bound to the slow ones.
const qosUtility = 0x11

// LowerThread gives the calling OS thread the QoS class "utility". Not tried
// on hardware.
func LowerThread() error {
	sym, err := purego.Dlsym(purego.RTLD_DEFAULT, "pthread_set_qos_class_self_np")
	if err != nil {
		return fmt.Errorf("llamacpp: QoS: %w", err)
	}
	if rc, _, _ := purego.SyscallN(sym, qosUtility, 0); rc != 0 {
		return fmt.Errorf("llamacpp: QoS class: error %d", rc)
	}
	return nil
}
