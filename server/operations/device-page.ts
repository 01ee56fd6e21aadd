/** The page on which a person logs in and confirms the code of a device: one file, its own script, nothing else. */
import { createHash } from 'node:crypto';

/** Who else one may log in through. */
interface Provider {
  readonly name: string;
  readonly label: string;
}

/**
 * The page as HTML. Its login lives in the memory of the script alone, and is ended when the person is done: there is
 * no cookie that another site could ride on, and nothing stays behind on a borrowed machine.
 */
export function devicePage(providers: readonly Provider[]): string {
  const links = providers.map(
    ({ name, label }) =>
      `<p><a data-provider="${escapeHtml(name)}" href="/api/v1/auth/oidc/${escapeHtml(name)}/authorize?return_to=/device">Log in through ${escapeHtml(label)}</a></p>`,
  );
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Log a device in</title>
<style>${style}</style>
</head>
<body>
<main>
<h1>Log a device in</h1>
<noscript><p>This page needs its script. Without it, confirm the code with POST /api/v1/auth/device/reply.</p></noscript>
<p id="message" role="status" hidden></p>
<form id="login" hidden>
<p>Log in, to let the device in as you.</p>
<label>E-mail address<input name="email" type="email" autocomplete="username" required></label>
<label>Password<input name="password" type="password" autocomplete="current-password" required></label>
<label>Code of your second factor, if you have one<input name="otp" autocomplete="one-time-code"></label>
<button>Log in</button>
${links.join('\n')}
</form>
<form id="code" hidden>
<label>The code that the device shows<input name="user_code" autocomplete="off" autocapitalize="characters" spellcheck="false" required></label>
<button>Go on</button>
</form>
<form id="reply" hidden>
<p>This device will be logged in as <strong id="account"></strong>:</p>
<dl><dt>Code</dt><dd id="user_code"></dd><dt>It calls itself</dt><dd id="client_name"></dd><dt>Address</dt><dd id="address"></dd><dt>Since</dt><dd id="created_at"></dd></dl>
<p>Allow it only if you have begun this yourself, and the device shows this very code.</p>
<button name="decision" value="allow">Allow</button>
<button name="decision" value="deny">Deny</button>
</form>
</main>
<script>${script}</script>
</body>
</html>
`;
}

const style = `
body { font: 1rem/1.5 system-ui, sans-serif; margin: 0; color: #1c1c1e; background: #fff; }
main { max-width: 26rem; margin: 3rem auto; padding: 0 1rem; }
label, input { display: block; } input { width: 100%; box-sizing: border-box; font: inherit; padding: .4rem; margin: .2rem 0 1rem; }
button { font: inherit; padding: .4rem 1.2rem; margin-right: .5rem; }
dt { font-weight: 600; } dd { margin: 0 0 .5rem; overflow-wrap: anywhere; }
#message { border-left: .25rem solid #a33; padding-left: .75rem; }
@media (prefers-color-scheme: dark) { body { color: #eee; background: #1c1c1e; } a { color: #8ab4f8; } }
`;

// Text is set as text, never as markup: what a device calls itself is anybody's word.
const script = `
const find = (id) => document.getElementById(id);
const forms = ['login', 'code', 'reply'];
const address = new URL(location.href);
const fragment = new URLSearchParams(address.hash.slice(1));
let token = null;
let account = '';
let userCode = address.searchParams.get('user_code') ?? '';
// What stands in the fragment is for this page, and for no history.
history.replaceState(null, '', address.pathname + address.search);
const show = (id, message = '') => {
  for (const form of forms) find(form).hidden = form !== id;
  find('message').textContent = message;
  find('message').hidden = message === '';
};
const call = async (method, path, body) => {
  const headers = { accept: 'application/json' };
  if (token !== null) headers.authorization = 'Bearer ' + token;
  if (body !== undefined) headers['content-type'] = 'application/json';
  const answer = await fetch(path, { method, headers, credentials: 'same-origin', body: body && JSON.stringify(body) });
  const content = answer.status === 204 ? null : await answer.json();
  if (!answer.ok) throw new Error(content.detail);
  return content;
};
const take = (pair) => { token = pair.access_token; account = pair.user.email; return next(); };
const end = async (message) => {
  await call('POST', '/api/v1/auth/logout', {}).catch(() => null);
  token = null;
  show(null, message);
};
const next = async () => {
  if (userCode === '') return show('code');
  const device = await call('GET', '/api/v1/auth/device?user_code=' + encodeURIComponent(userCode));
  find('account').textContent = account;
  find('user_code').textContent = device.user_code;
  find('client_name').textContent = device.client_name ?? 'nothing';
  find('address').textContent = device.address ?? 'unknown';
  find('created_at').textContent = new Date(device.created_at).toLocaleTimeString();
  show('reply');
};
const on = (id, work) => find(id).addEventListener('submit', async (event) => {
  event.preventDefault();
  const fields = Object.fromEntries(new FormData(find(id), event.submitter));
  try { await work(fields); } catch (error) {
    const again = token === null ? 'login' : 'code';
    if (again === 'code') userCode = '';
    show(again, error.message);
  }
});
on('login', async ({ email, password, otp }) => {
  await take(await call('POST', '/api/v1/auth/login', otp ? { email, password, otp } : { email, password }));
});
on('code', async ({ user_code }) => { userCode = user_code.trim(); await next(); });
on('reply', async ({ decision }) => {
  await call('POST', '/api/v1/auth/device/reply', { user_code: userCode, decision });
  await end(decision === 'allow' ? 'The device is logged in. You can close this page.' : 'The device was refused. You can close this page.');
});
for (const link of document.querySelectorAll('[data-provider]')) link.addEventListener('click', () => {
  const back = userCode === '' ? '/device' : '/device?user_code=' + encodeURIComponent(userCode);
  link.href = '/api/v1/auth/oidc/' + link.dataset.provider + '/authorize?return_to=' + encodeURIComponent(back);
});
const refusals = {
  access_denied: 'You were not logged in: the provider, or you there, refused.',
  registration_refused: 'This provider may not make an account here for you. Log in with the one you have, or ask the operator.',
  email_taken: 'There is an account with your e-mail address. Log in with its password; it can be linked to the provider.',
  identity_taken: 'This person of the provider is linked to another account.',
};
const code = fragment.get('login_code');
const refused = fragment.get('login_error');
if (refused !== null) show('login', refusals[refused] ?? 'You were not logged in.');
else if (fragment.has('linked')) show('login', 'The provider is linked to your account.');
else if (code === null) show('login');
else call('POST', '/api/v1/auth/oidc/token', { login_code: code }).then(take).catch((error) => show(token === null ? 'login' : 'code', error.message));
`;

/** The page's own script and style and no others; it speaks to this server alone, and nobody frames it. */
export const devicePagePolicy = [
  "default-src 'none'",
  `script-src '${hashOf(script)}'`,
  `style-src '${hashOf(style)}'`,
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

function hashOf(text: string): string {
  return `sha256-${createHash('sha256').update(text).digest('base64')}`;
}

function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.codePointAt(0)};`);
}
