/** The page on which a person logs in and confirms the code of a device. */
import { type Page, type Provider, page, providerLinks } from './page.ts';

export function devicePage(providers: readonly Provider[]): Page {
  return page({
    title: 'Log a device in',
    otherwise: 'Without it, confirm the code with <code>POST /api/v1/auth/device/reply</code>.',
    forms: `<form id="login" hidden>
<p>Log in, to let the device in as you.</p>
<label>E-mail address<input name="email" type="email" autocomplete="username" required></label>
<label>Password<input name="password" type="password" autocomplete="current-password" required></label>
<label>Code of your second factor, if you have one<input name="otp" autocomplete="one-time-code"></label>
<button class="main">Log in</button>
${providerLinks(providers, '/device')}
</form>
<form id="code" hidden>
<label>The code that the device shows<input name="user_code" autocomplete="off" autocapitalize="characters" spellcheck="false" required></label>
<button class="main">Go on</button>
</form>
<form id="reply" hidden>
<p>This device will be logged in as <strong id="account"></strong>:</p>
<dl><dt>Code</dt><dd id="user_code"></dd><dt>It calls itself</dt><dd id="client_name"></dd><dt>Address</dt><dd id="address"></dd><dt>Since</dt><dd id="created_at"></dd></dl>
<p>Allow it only if you have begun this yourself, and the device shows this very code.</p>
<button class="main" name="decision" value="allow">Allow</button>
<button name="decision" value="deny">Deny</button>
</form>`,
    script,
  });
}

const script = `
let account = '';
let userCode = new URL(location.href).searchParams.get('user_code') ?? '';
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
const take = (pair) => { token = pair.access_token; account = pair.user.email; return next(); };
// A code that was refused is typed anew.
const again = () => {
  if (token === null) return 'login';
  userCode = '';
  return 'code';
};
on('login', async (fields) => take(await logIn(fields)), again);
on('code', async ({ user_code }) => { userCode = user_code.trim(); await next(); }, again);
on('reply', async ({ decision }) => {
  await call('POST', '/api/v1/auth/device/reply', { user_code: userCode, decision });
  await logOut();
  show(null, decision === 'allow' ? 'The device is logged in. You can close this page.' : 'The device was refused. You can close this page.');
}, again);
for (const link of document.querySelectorAll('[data-provider]')) link.addEventListener('click', () => {
  const back = userCode === '' ? '/device' : '/device?user_code=' + encodeURIComponent(userCode);
  link.href = '/api/v1/auth/oidc/' + link.dataset.provider + '/authorize?return_to=' + encodeURIComponent(back);
});
if (fragment.has('linked')) show('login', 'The provider is linked to your account.');
else if (!fragment.has('login_code')) show('login', refusal());
else call('POST', '/api/v1/auth/oidc/token', { login_code: fragment.get('login_code') }).then(take).catch((error) => show(again(), error.message));
`;
