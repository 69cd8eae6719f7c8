package cloud

var NewMetric = newMetric
