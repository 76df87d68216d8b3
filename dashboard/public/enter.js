// Stores the key of a new session where only this page's origin can read it, then opens the dashboard.
const key = document.querySelector('meta[name="pykueue-key"]')?.getAttribute("content");
if (key) {
  localStorage.setItem("pykueue-key", key);
  location.replace("/ui/");
}
