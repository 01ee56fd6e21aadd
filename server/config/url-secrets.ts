/** Shows a URL of the settings without what is secret in it. */

/** A variable in the place of a secret, and a name beside it, are none. */
const variable = /^(?:[^:]*:)?(?:\$\w+|\$\{\w+\})$/;

/** A URL may hold a password, or a key among its parameters. */
export function withoutSecrets(url: string): string {
  const hideUnlessVariable = (whole: string, before: string, value: string, after = '') =>
    variable.test(value) ? whole : `${before}(hidden)${after}`;
  return url
    .replace(/(\/\/)([^/?#]*)(@)/, hideUnlessVariable)
    .replaceAll(/([?&][^=&#]*=)([^&#]+)()/g, hideUnlessVariable);
}

/** Whether what was hidden is a secret for sure: a password, or a parameter that is called so. Others may be harmless. */
export function hidesSecret(url: string): boolean {
  return (
    /\/\/\(hidden\)@/.test(url) ||
    /[?&][^=&#]*(token|secret|passw|passphrase|key|sig|auth|credential)[^=&#]*=\(hidden\)/i.test(url)
  );
}
