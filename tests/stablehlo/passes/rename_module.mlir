// CASE the name is a plain symbol
// where $NAME is BertForMaskedLM; $SYMBOL is BertForMaskedLM
// where $NAME is main; $SYMBOL is main
// where $NAME is Net[float]; $SYMBOL is Net_float_
// where $NAME is Größe; $SYMBOL is Gr__e
// where $NAME is 2x; $SYMBOL is _2x
// where $NAME is; $SYMBOL is _
// with {"name": "$NAME"}
// has module @$SYMBOL {
module @IrToHlo { func.func @main() { return } }

// CASE a module without a name gets one
// with {"name": "Net"}
// has module @Net {
func.func @main() { return }
