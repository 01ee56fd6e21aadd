// Google's token endpoint for service accounts: takes a signed assertion, gives an access token.
import { newId } from './dialect.ts';

const grantType = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
/** What every key file of a service account names as its token endpoint; assertions are made out to it. */
const vendorsAddress = 'https://oauth2.googleapis.com/token';

/** The answer to a form that was posted. The signature is not looked at: no key is known here. */
export function grant(
  form: string,
  ownAddress: string,
  expiresIn: number,
): { status: number; body: unknown } {
  const fields = new URLSearchParams(form);
  if (fields.get('grant_type') !== grantType) return refusal('unsupported_grant_type', 'Invalid grant_type');
  const wrong = faultOf(fields.get('assertion') ?? '', [vendorsAddress, ownAddress]);
  if (wrong !== null) return refusal('invalid_grant', wrong);
  const body = { access_token: newId('ya29.', 40), expires_in: expiresIn, token_type: 'Bearer' };
  return { status: 200, body };
}

export function refusal(error: string, error_description: string, status = 400) {
  return { status, body: { error, error_description } };
}

function faultOf(assertion: string, audiences: readonly string[]): string | null {
  const [header, claims, signature] = assertion.split('.');
  if (header === undefined || claims === undefined || !signature)
    return 'Invalid JWT: three parts are required.';
  const { alg } = decoded(header);
  const { iss, scope, aud, iat, exp } = decoded(claims);
  const now = Date.now() / 1000;
  if (alg !== 'RS256') return 'Invalid JWT: the algorithm must be RS256.';
  if (typeof iss !== 'string' || !iss.includes('@')) return 'Invalid grant: account not found';
  if (typeof scope !== 'string' || !scope.includes('cloud-platform'))
    return 'Invalid OAuth scope or ID token audience provided.';
  if (!audiences.includes(String(aud))) return 'Invalid JWT: wrong audience.';
  if (Number(iat) > now + 60 || !(Number(exp) > now) || Number(exp) - Number(iat) > 3600)
    return 'Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe.';
  return null;
}

function decoded(part: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(Buffer.from(part, 'base64url').toString());
    return typeof value === 'object' && value !== null ? { ...value } : {};
  } catch {
    // What cannot be read lacks every claim, and is refused for that.
    return {};
  }
}
