// Package fit compares the simulated chip with published figures, fits what its
// files call "fitted", and says how far that can be trusted.
//
// # What is compared
//
// The facts are rows of a CSV file: name, value, unit, condition, source,
// relation, kind, note. Those of kind outcome that the simulator can produce are
// scored: each has an experiment (which app, which policy, which number). The
// relative error is |simulated - published| / published; of a pair of rows, lo
// and hi, it is the distance to the nearer of both, 0 between them; of a row with
// "<", what lies above it. Rows that are 1 whatever is simulated, that say another
// row again, or whose condition isn't stated are listed with the reason why they
// are not scored.
//
// # What moves
//
// Parameters marked "fitted" only, within the physical bounds of their fields. Nelder and
// Mead's simplex (gonum's optimize) minimises the mean of Huber's loss of the errors,
// over blocks of a few parameters in turn. Outcomes
// are never written into the model.
//
// # How far it can be trusted
//
// Leave-out: the rows are dealt into folds; for each, the parameters begin at a
// place drawn at random around the shipped ones, are fitted to the other rows, and
// the error is that of the rows left out. With about as many parameters as rows it is
// much larger than the fit's own; it is reported as it is. A row that alone
// determines a parameter can't be predicted without it.
//
// Sensitivity: each parameter is moved by a tenth, and the row that moves most is
// named.
package fit
