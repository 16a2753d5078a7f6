from pyromq.net.http2.plain_call import PlainCall as PlainCall
from pyromq.net.http2.plain_call import is_whole as is_whole
