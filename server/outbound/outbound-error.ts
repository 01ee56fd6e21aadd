/** What goes wrong with an outgoing request, in words that are fit for whoever gave its URL. */

export type OutboundErrorCode =
  | 'url_refused'
  | 'address_refused'
  | 'redirect_refused'
  | 'answer_too_large'
  | 'answer_too_slow';

/** The guard refused. The message holds neither an address that a name led to nor anything that a server said. */
export class OutboundError extends Error {
  readonly code: OutboundErrorCode;

  constructor(code: OutboundErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'OutboundError';
    this.code = code;
  }
}

/** The guard's own error within whatever the HTTP client made of it; null where it has none. */
export function outboundErrorIn(error: unknown): OutboundError | null {
  for (let at = error; at instanceof Error; at = at.cause) if (at instanceof OutboundError) return at;
  return null;
}

const unreachable = 'The server could not be reached: there is no such name, or nobody answers there.';

/** By the codes of Node and of the HTTP client; none of them tells where a name leads. */
const sentences: Readonly<Record<string, string>> = {
  UND_ERR_HEADERS_OVERFLOW: 'The server answered with headers that are too large.',
  UND_ERR_HEADERS_TIMEOUT: 'The server took too long to answer.',
  UND_ERR_BODY_TIMEOUT: 'The server stopped in the middle of its answer.',
  UND_ERR_SOCKET: 'The server cut the connection.',
  ECONNRESET: 'The server cut the connection.',
  CERT_HAS_EXPIRED: 'The certificate of the server has expired.',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'The certificate of the server is not signed by anybody known here.',
  SELF_SIGNED_CERT_IN_CHAIN: 'The certificate of the server is not signed by anybody known here.',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'The certificate of the server is not signed by anybody known here.',
  ERR_TLS_CERT_ALTNAME_INVALID: 'The certificate of the server is for another name.',
};

/** One sentence about a request that failed, for whoever asked for it: no address, no word of the other server. */
export function outboundSentence(error: unknown): string {
  const own = outboundErrorIn(error);
  if (own) return own.message;
  for (let at = error; at instanceof Error; at = at.cause) {
    const code = 'code' in at && typeof at.code === 'string' ? at.code : '';
    if (sentences[code]) return sentences[code];
    if (code.startsWith('HPE_')) return 'The server does not speak HTTP.';
    if (code.startsWith('Z_') || code.startsWith('ERR_ZLIB') || code.startsWith('ERR__ERROR'))
      return 'The server sent a compressed answer that is broken.';
  }
  return unreachable;
}
