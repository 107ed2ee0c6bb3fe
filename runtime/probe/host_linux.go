package probe

import "os"

// Host is this machine.
func Host() Source { return NewTree(os.DirFS("/")) }
