package proxy

import "net/http"

// ServeHTTP answers one request. It shows the path of every request from top to bottom;
// each step is a function in the file of its name.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := newExchange(p, w, r)
	defer x.done()
	defer x.account()
	x.classify()
	x.widen()
	if !x.hold() { // the body
		return
	}
	x.resolve()
	x.choose()
	if !x.admit() {
		return
	}
	x.rewrite()
	x.answer(x.attempts())
}
