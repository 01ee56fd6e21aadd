/** Pages for people who have no front end: each is one file with its own style and script, and speaks to this server alone. */
import { createHash } from 'node:crypto';
import { isCurrent } from '../../handler.ts';

/** The same for everybody: nothing that a caller sends stands in it. */
export interface Page {
  readonly html: string;
  readonly etag: string;
  readonly policy: string;
}

/** What stands on a page. A form is shown when the script says so. */
export interface PageContent {
  readonly title: string;
  readonly forms: string;
  readonly script: string;
  /** What a person can do without the script. */
  readonly otherwise: string;
}

export function page({ title, forms, script, otherwise }: PageContent): Page {
  const whole = `${base}${script}`;
  const html = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<style>${style}</style>
</head>
<body>
<main>
<h1>${title}</h1>
<noscript><p>This page needs its script. ${otherwise}</p></noscript>
<p id="message" role="status" hidden></p>
${forms}
</main>
<script>${whole}</script>
</body>
</html>
`;
  return { html, etag: `"${hashOf(html, 'base64url').slice(0, 27)}"`, policy: policyFor(whole) };
}

/** The page, or that the caller has it. */
export function pageReply({ html, etag, policy }: Page, ifNoneMatch: string | undefined) {
  const guards = { 'Content-Security-Policy': policy, 'Referrer-Policy': 'no-referrer' } as const;
  if (isCurrent(ifNoneMatch, etag)) return { status: 304, headers: { ETag: etag } } as const;
  return { status: 200, type: 'text/html', headers: { ETag: etag, ...guards }, body: html } as const;
}

/** Who else one may log in through. */
export interface Provider {
  readonly name: string;
  readonly label: string;
}

/** Made at the first request: the providers do not change while the server runs. */
export function pageOnce(make: (providers: readonly Provider[]) => Page) {
  const made = new WeakMap<readonly Provider[], Page>();
  return (providers: readonly Provider[]): Page => {
    const before = made.get(providers);
    if (before) return before;
    const first = make(providers);
    made.set(providers, first);
    return first;
  };
}

/** Links that come back to this page; the script says with what. */
export function providerLinks(providers: readonly Provider[], path: string): string {
  return providers
    .map(({ name, label }) => {
      const authorize = `/api/v1/auth/oidc/${escapeHtml(name)}/authorize?return_to=${path}`;
      return `<p><a data-provider="${escapeHtml(name)}" href="${authorize}">Log in through ${escapeHtml(label)}</a></p>`;
    })
    .join('\n');
}

const style = `
body { font: 1rem/1.5 system-ui, sans-serif; margin: 0; color: #1c1c1e; background: #fff; }
main { max-width: 26rem; margin: 3rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; line-height: 1.25; }
label, input { display: block; }
input { width: 100%; box-sizing: border-box; font: inherit; padding: .5rem; margin: .25rem 0 1rem; color: inherit; background: transparent; border: 1px solid #8a8a8e; border-radius: .375rem; }
button { font: inherit; padding: .5rem 1.25rem; margin: 0 .5rem .5rem 0; border: 1px solid #0b57d0; border-radius: .375rem; color: #0b57d0; background: transparent; cursor: pointer; }
button.main { color: #fff; background: #0b57d0; }
button:disabled { opacity: .5; cursor: default; }
a { color: #0b57d0; }
:focus-visible { outline: 2px solid #0b57d0; outline-offset: 2px; }
dt { font-weight: 600; } dd { margin: 0 0 .5rem; overflow-wrap: anywhere; }
#message { border-left: .25rem solid #0b57d0; padding: .25rem .75rem; overflow-wrap: anywhere; }
@media (prefers-color-scheme: dark) {
  body { color: #eee; background: #1c1c1e; } a, button { color: #8ab4f8; border-color: #8ab4f8; }
  button.main { color: #1c1c1e; background: #8ab4f8; } #message { border-color: #8ab4f8; }
}
`;

// Its login lives in the memory of the script alone, and is ended when the person is done: there is no cookie that
// another site could ride on, and nothing stays behind on a borrowed machine. Text is set as text, never as markup.
const base = `
const find = (id) => document.getElementById(id);
const fragment = new URLSearchParams(location.hash.slice(1));
// What stands in the fragment is for this page, and for no history.
history.replaceState(null, '', location.pathname + location.search);
let token = null;
const show = (shown, message = '') => {
  for (const form of document.forms) form.hidden = form.id !== shown;
  find('message').textContent = message;
  find('message').hidden = message === '';
  find(shown)?.querySelector('input:not([value])')?.focus();
};
const call = async (method, path, body) => {
  const headers = { accept: 'application/json' };
  if (token !== null) headers.authorization = 'Bearer ' + token;
  if (body !== undefined) headers['content-type'] = 'application/json';
  const sent = { method, headers, credentials: 'same-origin', body: body && JSON.stringify(body) };
  const answer = await fetch(path, sent).catch(() => { throw new Error('The server did not answer; try again.'); });
  const content = answer.status === 204 ? null : await answer.json();
  if (!answer.ok) throw Object.assign(new Error(content.detail), { code: content.code });
  return content;
};
const logIn = async ({ email, password, otp }) => {
  const account = otp ? { email, password, otp } : { email, password };
  const pair = await call('POST', '/api/v1/auth/login', account).catch((error) => {
    throw error.code === 'otp_required' && !otp ? new Error('This account has a second factor: type its code, too.') : error;
  });
  token = pair.access_token;
  return pair;
};
const logOut = async () => {
  if (token !== null) await call('POST', '/api/v1/auth/logout', {}).catch(() => null);
  token = null;
};
const on = (id, work, after = () => id) => find(id).addEventListener('submit', async (event) => {
  event.preventDefault();
  const buttons = find(id).querySelectorAll('button');
  const fields = Object.fromEntries(new FormData(find(id), event.submitter));
  for (const button of buttons) button.disabled = true;
  try { await work(fields); } catch (error) { show(after(), error.message); }
  for (const button of buttons) button.disabled = false;
});
const refusals = {
  access_denied: 'You were not logged in: the provider, or you there, refused.',
  registration_refused: 'This provider may not make an account here for you. Log in with the one you have, or ask the operator.',
  email_taken: 'There is an account with your e-mail address. Log in with its password; it can be linked to the provider.',
  identity_taken: 'This person of the provider is linked to another account.',
};
const refusal = () => fragment.has('login_error') ? refusals[fragment.get('login_error')] ?? 'You were not logged in.' : '';
`;

/** The page's own script and style and no others; nobody frames it, and no form is sent past its script. */
function policyFor(script: string): string {
  return [
    "default-src 'none'",
    `script-src 'sha256-${hashOf(script, 'base64')}'`,
    `style-src 'sha256-${hashOf(style, 'base64')}'`,
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ');
}

function hashOf(text: string, encoding: 'base64' | 'base64url'): string {
  return createHash('sha256').update(text).digest(encoding);
}

function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.codePointAt(0)};`);
}
