from pyromq.net.http2.plain_call import PlainCall as PlainCall
from pyromq.net.http2.plain_call import take_all as take_all
