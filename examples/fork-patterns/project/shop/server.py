"""Says all orders from memory to whoever connects to port 8000. The tests ask it, so it has to run."""

import json
import socketserver

from shop import orders

ANSWER = json.dumps(orders.load()).encode()


class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(ANSWER)


socketserver.TCPServer(("127.0.0.1", 8000), Handler).serve_forever()
