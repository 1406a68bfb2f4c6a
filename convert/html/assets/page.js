"use strict";var xray=(()=>{var Pt=Object.defineProperty;var Ue=Object.getOwnPropertyDescriptor;var Re=Object.getOwnPropertyNames;var Ne=Object.prototype.hasOwnProperty;var Fe=(o,t)=>{for(var e in t)Pt(o,e,{get:t[e],enumerable:!0})},$e=(o,t,e,n)=>{if(t&&typeof t=="object"||typeof t=="function")for(let r of Re(t))!Ne.call(o,r)&&
r!==e&&Pt(o,r,{get:()=>t[r],enumerable:!(n=Ue(t,r))||n.enumerable});return o};var He=o=>$e(Pt({},"__esModule",{value:!0}),o);var fn={};Fe(fn,{app:()=>Xt});function C(o){let t=document.getElementById(o);if(!t)throw new Error("no element "+o);return t}function y(o,t={},...e){let n=document.createElement(o);for(let[r,
s]of Object.entries(t))typeof s=="function"?n.addEventListener(r.slice(2),s):r==="class"?n.className=String(s):n.setAttribute(r,String(s));return n.append(...e),
n}var et=(o,t,e)=>y("button",{type:"button",title:t,onclick:e},o),Ot=o=>y("span",{class:"cut"},y("bdi",{dir:"ltr"},o));function H(o,t,...e){let n=C("tip");if(n.
hidden=!t,!t)return;let r=t.length>600?t.slice(0,600)+"…":t;n.replaceChildren(y("strong",{},r),...e.filter(i=>i).map(i=>y("div",{},i)));let s=o.clientX+14+n.offsetWidth>
innerWidth?o.clientX-n.offsetWidth-10:o.clientX+14;n.style.left=Math.max(4,s)+"px";let a=o.clientY+18,l=a+n.offsetHeight<=innerHeight-4;n.style.top=Math.max(4,l?
a:o.clientY-n.offsetHeight-18)+"px"}var E=o=>o.toLocaleString("en"),F=(o,t)=>E(o)+" "+(o===1?t:t+"s"),I=(o,t)=>t>0?(100*o/t).toFixed(1)+" %":"",Ut=["s",1e9],Rt=["ms",1e6],Nt=["µs",1e3],Jt=["ns",1],
De=[Ut,Rt,Nt,Jt],Gt=o=>De.find(([,t])=>Math.abs(o)>=t)??Jt,ct=class{constructor(t,e,n){this.unit=t;this.span=e;this.epoch=n;this.inTicks=t!=="ns"}unit;span;epoch;inTicks;time(t){
if(this.inTicks)return E(Math.round(t))+" ticks";if(t>=1e12)return E(Math.round(t/1e9))+" s";for(let[e,n]of[Ut,Rt,Nt])if(Math.abs(t)>=n)return(t/n).toPrecision(
4)+" "+e;return Math.round(t)+" ns"}moment(t){if(this.inTicks)return E(Math.round(t));let[e,n]=this.span>=1e9?Ut:this.span>=1e6?Rt:Nt,[r,s]=(Math.round(t)/n).toFixed(
Math.log10(n)).split(".");return E(Number(r))+"."+s.replace(/\d{3}(?=\d)/g,"$& ")+" "+e}exact(t){if(this.inTicks)return String(Math.round(t));let[e,n]=Gt(t);return Number(
(t/n).toFixed(Math.log10(n)))+(e==="µs"?"us":e)}parse(t){let e=/^\s*(\d+\.?\d*|\.\d+)\s*(s|ms|us|µs|ns|ticks|)\s*$/.exec(t);if(!e||this.inTicks&&e[2]&&e[2]!==
"ticks"||!this.inTicks&&e[2]==="ticks")return NaN;let n={s:1e9,ms:1e6,us:1e3,µs:1e3};return Number(e[1])*(n[e[2]]??1)}parseRange(t){let[e,n]=t.split(/\s*(?:-|–|to)\s*/).
map(r=>this.parse(r));return e!==void 0&&n!==void 0&&e<n?[e,n]:null}date(t){if(!this.epoch)return"";let e=BigInt(this.epoch)+BigInt(Math.round(t)),n=Number(e/1000000000n);
return new Date(n*1e3).toISOString().replace("T"," ").replace(/\.000Z$/,"."+String(e%1000000000n).padStart(9,"0"))+" UTC"}rate(t,e){return this.inTicks||this.span<
1e4?"":`≤ ${E(Number((t*1e9/e).toPrecision(2)))} calls/s`}ticks(t,e,n){let r=Math.pow(10,Math.ceil(Math.log10(n*90)));r/5>=n*90?r/=5:r/2>=n*90&&(r/=2),r=Math.
max(r,1);let s=e/r>2e3?Math.floor(t/r/10)*r*10:0,a=[],l=Math.max(Math.abs(t-s),Math.abs(e-s)),[i,c]=this.inTicks?["",1]:Gt(l),u=Math.max(0,Math.ceil(Math.log10(
c/r)-1e-9));for(let d=Math.ceil(t/r);d*r<=e;d++){let h=d*r-s;a.push({at:d*r,label:(s?"+":"")+(h===0?"0":Number((h/c).toFixed(u)).toLocaleString("en")+" "+i)})}return{
anchor:s,marks:a}}};function Qt(o,t,e){let n=t*Math.cos(e*Math.PI/180),r=t*Math.sin(e*Math.PI/180),s=(o+.3963377774*n+.2158037573*r)**3,a=(o-.1055613458*n-.0638541728*r)**3,l=(o-.0894841775*
n-1.291485548*r)**3;return"#"+[4.0767416621*s-3.3077115913*a+.2309699292*l,-1.2684380046*s+2.6097574011*a-.3413193965*l,-.0041960863*s-.7034186147*a+1.707614701*
l].map(i=>{let c=Math.min(1,Math.max(0,i<=.0031308?12.92*i:1.055*i**.4166666666666667-.055));return Math.round(255*c).toString(16).padStart(2,"0")}).join("")}function Zt(o){
let t=parseInt(o.trim().slice(1),16);return(4278190080|(t&255)<<16|t&65280|t>>16)>>>0}function ht(o,t,e){let n=r=>{let s=o>>>r&255,a=t>>>r&255;return Math.round(
s+(a-s)*e)<<r};return(4278190080|n(16)|n(8)|n(0))>>>0}var _t=["back","panel","text","faint","line","accent","dim","onColor","running","deepest","blocked","queue\
d","recorder"],ut=class{constructor(t,e){this.dark=t;let n=getComputedStyle(document.documentElement);this.css=Object.fromEntries(_t.map(r=>[r,n.getPropertyValue(
"--"+r).trim()])),this.pixel=Object.fromEntries(_t.map(r=>[r,Zt(this.css[r])])),this.texts=e.map(r=>qe(r,t)),this.functions=Uint32Array.from(this.texts,Zt)}dark;css;pixel;functions;texts;functionColor(t){
return this.texts[t]}};function qe(o,t){let e=2166136261;for(let r=0;r<o.length;r++)e=Math.imul(e^o.charCodeAt(r),16777619);e=Math.imul(e^e>>>15,739982445),e=(e^
e>>>13)>>>0;let n=(e>>>9)%8/7;return t?Qt(.44+.08*n,.09,e%360):Qt(.8+.07*n,.095,e%360)}function O(o,t,e){for(;o<t;){let n=o+t>>1;e(n)?o=n+1:t=n}return o}var J=class{constructor(t,e,n,r,s){this.threads=e;this.rows=n;this.waits=r;this.length=s;({func:this.
func,start:this.start,duration:this.duration,depth:this.depth,ends:this.ends}=t),this.n=this.func.length}threads;rows;waits;length;n;func;start;duration;depth;ends;get span(){
return Math.max(this.length,1)}endOf(t){return this.start[t]+this.duration[t]}isPartial(t){return this.ends[t]===4||this.ends[t]>=6}threadOf(t){return this.threads[O(
0,this.threads.length,e=>this.threads[e].end<=t)]}row(t,e,n=this.rows){return e<t.depth?n.order.subarray(n.from[t.row0+e],n.from[t.row0+e+1]):n.order.subarray(0,
0)}parentOf(t){let e=this.depth[t];if(e===0)return-1;let n=this.row(this.threadOf(t),e-1);return n[O(0,n.length,r=>n[r]<t)-1]}inside(t){let e=this.threadOf(t),n=this.
row(e,this.depth[t]),r=this.row(e,this.depth[t]+1),s=O(0,n.length,i=>n[i]<=t),a=s<n.length?n[s]:e.end,l=O(0,r.length,i=>r[i]<t);return r.subarray(l,O(l,r.length,
i=>r[i]<a))}selfOf(t){let e=this.duration[t];for(let n of this.inside(t))e-=this.duration[n];return e}lastOf(t){let{end:e}=this.threadOf(t),n=this.depth[t],r=t+
1;for(;r<e&&this.depth[r]>n;)r++;return r}neighbour(t,e){let n=this.threadOf(t),r=this.depth[t];if(e==="outer")return this.parentOf(t);if(e==="inner")return t+1<
n.end&&this.depth[t+1]>r?t+1:-1;let s=this.row(n,r),a=O(0,s.length,l=>s[l]<t)+(e==="next"?1:-1);return a>=0&&a<s.length?s[a]:-1}waited(t,e,n){let r=this.waits,s={
blocked:0,queued:0,recorder:0,unknown:0};for(let a=O(t.wait0,t.waitEnd,l=>r.end[l]<=e);a<t.waitEnd&&r.start[a]<n;a++){let l=r.end[a];for(let i of["queued","reco\
rder","blocked"]){let c=l-r[i][a];s[i]+=Math.max(0,Math.min(l,n)-Math.max(c,e)),l=c}l===r.end[a]&&(s.unknown+=Math.max(0,Math.min(l,n)-Math.max(r.start[a],e)))}
return s}};function mt(o,t,e){let n=e?e.length:t.length,r=o[o.length-1],s=new Uint32Array((r?r.row0+r.depth:0)+1),a=new Uint32Array(n),l=c=>{let u=0;for(let d of o)
for(;u<n;u++){let h=e?e[u]:u;if(h>=d.end)break;c(d.row0+t[h],h)}};l(c=>{s[c+1]++});for(let c=1;c<s.length;c++)s[c]+=s[c-1];let i=s.slice();return l((c,u)=>{a[i[c]++]=
u}),{order:a,from:s}}var Q=["open","depth","blocked","queued","recorder","unknown","inside"],$t=8192,Ft=class{constructor(t){this.n=t;this.change=new Float64Array(t+2)}n;change;used=!1;add(t,e){
this.used=!0,this.edge(t,1),this.edge(e,-1)}edge(t,e){let n=t<0?0:t>this.n?this.n:t,r=n|0,s=n-r;this.change[r]+=e*(1-s),this.change[r+1]+=e*s}addTo(t){if(this.used)
for(let e=0,n=0;e<this.n;e++)n+=this.change[e],n>1e-6&&(t[e]+=n)}},nt=class{constructor(t,e,n,r){this.calls=t;this.from=e;this.interval=n;this.n=r;this.states=Object.
fromEntries(Q.map(s=>[s,new Float32Array(r)]))}calls;from;interval;n;states;covers=null;finish(){if(this.covers)for(let t of Q)this.covers[t].addTo(this.states[t]);
return this.covers=null,this.states}add(t){this.covers??=Object.fromEntries(Q.map(h=>[h,new Ft(this.n)]));let{calls:e,from:n,interval:r,covers:s}=this,{start:a,
duration:l,depth:i}=e,c=n+this.n*r,u=h=>{let f=(a[h]-n)/r,p=f+l[h]/r;s.depth.add(f,p),i[h]===0&&s.open.add(f,p)},d=O(t.first,t.end,h=>a[h]<n);for(let h=0;h<t.depth;h++){
let f=e.row(t,h),p=f[O(0,f.length,m=>f[m]<d)-1];p!==void 0&&a[p]+l[p]>n&&u(p)}for(let h=d;h<t.end&&a[h]<c;h++)u(h);t.waitEnd>t.wait0&&this.addWaits(t,s,c)}addWaits(t,e,n){
let{calls:r,from:s,interval:a}=this,{waits:l}=r,i=r.row(t,0),c=d=>(d-s)/a,u=O(0,i.length,d=>r.endOf(i[d])<s);for(let d=O(t.wait0,t.waitEnd,h=>l.end[h]<s);d<t.waitEnd&&
l.start[d]<n;d++){let h=l.end[d],f=h-l.queued[d],p=f-l.recorder[d],m=p-l.blocked[d];e.queued.add(c(f),c(h)),e.recorder.add(c(p),c(f)),e.blocked.add(c(m),c(p));let b=m===
h?l.start[d]:m;for(m===h&&e.unknown.add(c(b),c(h));u<i.length&&r.endOf(i[u])<h;)u++;u<i.length&&r.start[i[u]]<=b&&e.inside.add(c(b),c(h))}}addProfile(t,e){let n=0,
r=this.calls.span/e;if(this.interval<r)return!1;for(;n+1<t.length&&r*8<=this.interval;r*=2)n++;for(let s of Q){let a=t[n][s],l=this.states[s];if(!a)continue;let i=this.
interval/r,c=this.from/r;for(let u=0,d=this.n,h=a.length;u<d;u++){let f=Math.max(0,c+u*i),p=Math.min(h,c+(u+1)*i),m=0;for(let b=Math.floor(f);b<p;b++)m+=a[b]*(Math.
min(p,b+1)-Math.max(f,b));l[u]+=m/i}}return!0}};function te(o,t,e){let n=new nt(o,0,o.span/e,e);for(let a of t)n.add(a);let r=n.finish();for(let a of Q)r[a].some(
l=>l>0)||delete r[a];let s=[r];for(let a=e/2;a>=256;a/=2){let l=r;r={};for(let i of Q)l[i]&&(r[i]=Float32Array.from({length:a},(c,u)=>(l[i][2*u]+l[i][2*u+1])/2));
s.push(r)}return s}function ee(o){let t=Math.pow(2,Math.max(9,Math.min(14,Math.floor(Math.log2(524288/Math.max(o.threads.length,1)))))),e={},n=new Map;for(let r of o.
threads){let s=n.get(r.pool);s?s.push(r):n.set(r.pool,[r])}for(let[r,s]of n)s.length>1&&(e[r]={threads:s.length,levels:te(o,s,$t)});return{parts:t,levels:o.threads.
map(r=>te(o,[r],t)),pools:e}}function rt(o,t){let e=new Uint32Array(o.length);for(let n=0;n<o.length;n++)e[n]=t(o[n]);return e}function ft(o,t,e){let n=o.length,r=new Uint32Array(n);if(e)for(let s=0;s<
n;s++)r[s]=t[o[s]]/4294967296;else for(let s=0;s<n;s++)r[s]=t[o[s]]>>>0;return r}function Ht(o,t,e){let n=o.slice();for(let r=0;r<e;r++)n=Ie(n,t(n,r));return n}
function Ie(o,t){let e=o.length,n=new Uint32Array(2048),r=new Uint32Array(2048),s=new Uint32Array(2048);for(let i=0;i<e;i++){let c=t[i];n[c&2047]++,r[c>>>11&2047]++,
s[c>>>22]++}let a=null,l=null;return[n,r,s].forEach((i,c)=>{if(i.includes(e))return;a||=new Uint32Array(e),l||=new Uint32Array(e);let u=0;for(let d=0;d<2048;d++){
let h=i[d];i[d]=u,u+=h}Ke(o,t,a,l,i,11*c),[o,a,t,l]=[a,o,l,t]}),o}function Ke(o,t,e,n,r,s){for(let a=0;a<t.length;a++){let l=t[a],i=r[l>>>s&2047]++;e[i]=o[a],n[i]=
l}}var pt=class{constructor(t){this.data=t}data;get time(){return this.data.total[0]}func(t){return this.data.func[t]}parent(t){return this.data.parent[t]}depth(t){
return this.data.depth[t]}total(t){return this.data.total[t]}self(t){return this.data.self[t]}calls(t){return this.data.calls[t]}children(t){return Array.from({
length:this.data.count[t]},(e,n)=>this.data.first[t]+n)}beside(t,e){if(t===0)return-1;let n=this.parent(t),r=this.data.first[n],s=t+e;return s>=r&&s<r+this.data.
count[n]?s:-1}matched(t){let e=0,n=new Uint8Array(this.data.func.length);for(let r=1;r<n.length;r++)n[r]=n[this.parent(r)],!(n[r]||!t[this.func(r)])&&(n[r]=1,e+=
this.total(r));return e}};function ne(o,t,e){let n=[];for(let a=o.parent(t);a>=0;a=o.parent(a))n.unshift({node:a,x:0,width:e,depth:o.depth(a),faint:!0});let r=Math.
max(o.total(t),1)/e,s=[{node:t,x:0,width:e,depth:o.depth(t),faint:!1}];for(let a=s.pop();a;a=s.pop()){n.push(a);let l=a.x;for(let i of o.children(a.node)){let c=o.
total(i)/r;if(c<.5)break;s.push({node:i,x:l,width:c,depth:o.depth(i),faint:!1}),l+=c}}return n}var bt=class{root={func:-1,parent:-1,calls:0,total:0,self:0,children:new Map,
last:null};path=[this.root];enter(t){let e=this.path[this.path.length-1],n=e.last;return(!n||n.func!==t)&&(n=e.children.get(t)??null,n||(n={func:t,parent:-1,calls:0,
total:0,self:0,children:new Map,last:null},e.children.set(t,n)),e.last=n),this.path.push(n),n}finish(t){let e=[{node:this.root,parent:-1,depth:0}],n=[],r=[];for(let s=0;s<
e.length;s++){let{node:a,depth:l}=e[s],i=Array.from(a.children.values()).filter(c=>c.calls>0).sort((c,u)=>u.total-c.total||t[c.func]-t[u.func]);n.push(e.length),
r.push(i.length);for(let c of i)e.push({node:c,parent:s,depth:l+1})}return{func:Int32Array.from(e,s=>s.node.func),parent:Int32Array.from(e,s=>s.parent),depth:Uint32Array.
from(e,s=>s.depth),first:Uint32Array.from(n),count:Uint32Array.from(r),calls:Uint32Array.from(e,s=>s.node.calls),total:Float64Array.from(e,s=>s.node.total),self:Float64Array.
from(e,s=>s.node.self)}}};var je=10,Ve=12,gt=class{constructor(t,e){this.calls=t;let n=e.functions.map((a,l)=>l),r=e.functions,s=(a,l)=>a<l?-1:a>l?1:0;n.sort((a,l)=>s(r[a].short,r[l].short)||
s(r[a].name,r[l].name)||a-l),this.rank=new Uint32Array(n.length),n.forEach((a,l)=>{this.rank[a]=l})}calls;rank;selfTimes=null;parents=null;listed=null;threads(t){
return t.threads?t.threads.map(e=>this.calls.threads[e]):this.calls.threads}select(t,e){let[n,r]=e??[-1/0,1/0],s=this.threads(t),{func:a,start:l,duration:i}=this.
calls,c=new Uint32Array(s.reduce((p,m)=>p+m.calls,0)),{functions:u,min:d,max:h}=t,f=0;for(let p of s)for(let m=p.first;m<p.end;m++){let b=i[m],g=l[m];b>=d&&b<=h&&
g<=r&&g+b>=n&&(!u||u[a[m]])&&(c[f++]=m)}return c.subarray(0,f)}find(t){let{duration:e,start:n}=this.calls,r=t.functions||t.min>0||t.max<1/0,s=this.select(t,null),
[a,l]=t.range??[-1/0,1/0],i=0;for(let c of s)n[c]<=l&&n[c]+e[c]>=a&&i++;return{count:i,rows:r?mt(this.calls.threads,this.calls.depth,s):null}}self(){if(this.selfTimes)
return this.selfTimes;let{duration:t}=this.calls,e=Float64Array.from(t),n=this.parent();for(let r=0;r<e.length;r++)n[r]>=0&&(e[n[r]]-=t[r]);return this.selfTimes=
e}parent(){if(this.parents)return this.parents;let{depth:t,threads:e}=this.calls,n=new Int32Array(this.calls.n).fill(-1),r=[];for(let s of e)for(let a=s.first;a<
s.end;a++)t[a]>0&&(n[a]=r[t[a]-1]),r[t[a]]=a;return this.parents=n}keys(t){let{func:e,start:n,duration:r,depth:s}=this.calls,a=this.rank,l=this.calls.length>=4294967296?
2:1;switch(t){case"function":return[i=>rt(i,c=>a[e[c]]),1];case"thread":{let i=new Uint32Array(this.calls.n);for(let c of this.calls.threads)i.fill(c.index,c.first,
c.end);return[c=>rt(c,u=>i[u]),1]}case"start":return[(i,c)=>ft(i,n,c),l];case"duration":return[(i,c)=>ft(i,r,c),l];case"self":{let i=this.self();return[(c,u)=>ft(
c,i,u),l]}case"depth":return[i=>rt(i,c=>s[c]),1];case"parent":{let i=this.parent();return[c=>rt(c,u=>i[u]<0?0:1+a[e[i[u]]]),1]}}}list(t,e,n){let r=JSON.stringify(
[t.threads,t.range,t.functions&&Array.from(t.functions),t.min,String(t.max),e]);return this.listed?.key!==r&&(this.listed={key:r,order:Ht(this.select(t,t.range),
...this.keys(e)),reversed:!1}),this.listed.reversed!==n&&(this.listed.order.reverse(),this.listed.reversed=n),this.listed.order.slice()}sum(t){let[e,n]=t.range??
[-1/0,1/0],{func:r,start:s,duration:a,depth:l,ends:i}=this.calls,c=this.rank.length,u={tree:null,calls:new Uint32Array(c),total:new Float64Array(c),self:new Float64Array(
c),max:new Float64Array(c)},d=new bt,{path:h,root:f}=d,p=new Uint32Array(c),m=b=>{for(;h.length>b+1;)p[h.pop().func]--};for(let b of this.threads(t)){for(let g=b.
first;g<b.end;g++){let A=s[g],v=a[g],x=A+v,M=r[g];m(l[g]);let k=h[h.length-1],S=d.enter(M),w=Math.max(0,Math.min(x,n)-Math.max(A,e));S.total+=w,S.self+=w,k.self-=
w,u.self[M]+=w,k===f?f.total+=w:u.self[k.func]-=w,A<=n&&x>=e&&(S.calls++,u.calls[M]++,v>u.max[M]&&i[g]!==4&&i[g]<6&&(u.max[M]=v),p[M]||(u.total[M]+=w)),p[M]++}m(
0)}return f.self=0,u.tree=d.finish(this.rank),u}rates(t,e){let n=new Float64Array(e),r=this.calls.span/e,{start:s}=this.calls;for(let a of this.threads(t))for(let l=a.
first;l<a.end;l++)n[Math.min(s[l]/r|0,e-1)]++;return n}profiles(){return ee(this.calls)}details(t,e){let[n,r]=e.range??[-1/0,1/0],{start:s,duration:a}=this.calls,
l=[];for(let p of this.threads(e))for(let m=p.first;m<p.end;m++)this.calls.func[m]===t&&s[m]<=r&&s[m]+a[m]>=n&&l.push(m);let[i,c]=this.keys("duration"),u=Ht(Uint32Array.
from(l),i,c),d=u.filter(p=>!this.calls.isPartial(p)),h=d.length,f=p=>h?a[d[Math.min(h-1,Math.floor(p*h))]]:0;return{calls:u.length,open:u.length-h,quantiles:[0,
.5,.9,.99,.999,1].map(f),bins:h?We(d,a):[],...this.neighbours(u),slowest:u.slice(-je).reverse()}}neighbours(t){let e=new Map,n=new Map,r=this.parent(),{func:s,duration:a}=this.
calls,l=(c,u,d)=>{let h=c.get(u)??{func:u,calls:0,total:0};h.calls++,h.total+=d,c.set(u,h)};for(let c of t){l(e,r[c]<0?-1:s[r[c]],a[c]);for(let u of this.calls.
inside(c))l(n,s[u],a[u])}let i=c=>Array.from(c.values()).sort((u,d)=>d.total-u.total||u.func-d.func).slice(0,Ve);return{callers:i(e),callees:i(n)}}};function We(o,t){
let e=i=>Math.floor(Math.log2(Math.max(i,1))*4),n=new Map;for(let i of o)n.set(e(t[i]),(n.get(e(t[i]))??0)+1);let r=e(t[o[0]]),s=e(t[o[o.length-1]]),a=Math.max(
1,Math.ceil((s-r+1)/24)),l=[];for(let i=r;i<=s;i+=a){let c=0;for(let h=i;h<i+a;h++)c+=n.get(h)??0;let u=Math.ceil(Math.pow(2,i/4)),d=Math.ceil(Math.pow(2,(i+a)/
4))-1;(d>=u||c)&&l.push({from:i===0?0:u,to:Math.max(d,u),n:c})}return l}function re(o,t){let e=[],n=o.lastOf(t),r=o.depth[t];for(let s=t;s<n&&e.length<200;s++){
let a=o.depth[s]-r;a<=8&&o.duration[s]>=o.duration[t]/200&&e.push({call:s,depth:a})}return e}var oe=(o,t)=>({calls:o.calls[t],total:o.total[t],self:o.self[t],max:o.
max[t]}),Dt=(o,t,e)=>O(0,o.length,n=>t.endOf(o[n])<e);var qt=["function","thread","start","duration","self","depth","parent"],yt=["trace","busy","blocked","name","start","selected"],B=class{constructor(t,e,n){this.
page=t;this.key=e;this.ask=n}page;key;ask;asked=null;waiting=!1;value;get(){return!this.waiting&&this.key()!==this.asked&&(this.asked=this.key(),this.waiting=!0,
this.page.busy++,this.ask().then(t=>{this.value=t}).catch(t=>this.page.fail(t)).finally(()=>{this.waiting=!1,this.page.busy--,this.page.change({})})),this.value}get current(){
return!this.waiting&&this.key()===this.asked}},q=class o{constructor(t,e,n,r,s){this.meta=t;this.calls=e;this.engine=n;this.rank=r;this.tabs=s;this.format=new ct(
t.unit,e.span,t.epoch),this.dark.addEventListener("change",()=>this.change({}))}meta;calls;engine;rank;tabs;state={tab:"calls",query:"",min:"",max:"",thread:"",
from:0,to:1,selection:null,call:-1,func:-1,sort:"start",down:!1,theme:"",order:"trace",unfolded:null,pinned:[],hidden:[],moved:[],groups:null};format;busy=0;draws=[];dark=matchMedia(
"(prefers-color-scheme: dark)");themes={};pending=0;saving=0;place=null;fail(t){throw document.getElementById("summary").textContent="The page cannot show the t\
race: "+String(t),t}get isDark(){return this.state.theme?this.state.theme==="dark":this.dark.matches}get theme(){let t=this.isDark?"dark":"light";return this.themes[t]??=
new ut(this.isDark,this.meta.functions.map(e=>e.short))}onDraw(t){this.draws.push(t)}drawAll(){document.documentElement.className=this.isDark?"dark":"light";for(let t of this.
draws)t()}change(t){Object.assign(this.state,t),t.from!==void 0&&this.show(t.from,t.to),this.pending||(this.pending=requestAnimationFrame(()=>{this.pending=0,this.
drawAll()})),clearTimeout(this.saving),this.saving=window.setTimeout(()=>this.writeFragment(),200)}async settled(){let t=()=>new Promise(e=>requestAnimationFrame(
()=>setTimeout(e)));do await t();while(this.pending||this.busy||this.saving);await t()}show(t,e){let n=this.calls.span,r=Math.min(Math.max(e-t,10),Math.max(n*3,
100)),s=Math.min(Math.max((t+e)/2,0),n);this.state.from=s-r/2,this.state.to=s+r/2}readFragment(){let t=new URLSearchParams(location.hash.slice(1)),{state:e}=this,
n=u=>t.get(u)??"",r=(u,d)=>t.has(u)&&isFinite(Number(t.get(u)))?Number(t.get(u)):d,s=u=>n(u).split(".").filter(d=>d!=="").map(Number).filter(d=>d>=0&&d<this.meta.
threads.length&&Number.isInteger(d));for(let u of["query","min","max","thread"])e[u]=n(u);e.tab=this.tabs.includes(n("tab"))?n("tab"):"calls",e.theme=["light","\
dark"].includes(n("theme"))?n("theme"):"",this.show(r("from",0),r("to",this.calls.span));let a=r("a",NaN),l=r("b",NaN);e.selection=a<l?[a,l]:null;let i=r("call",
-1),c=r("func",-1);e.call=i>=0&&i<this.calls.n?i|0:-1,e.func=c>=0&&c<this.meta.functions.length?c|0:-1,e.sort=qt.find(u=>u===n("sort"))??"start",e.down=n("down")===
"1",e.order=yt.find(u=>u===n("order"))??"trace",e.unfolded=t.has("unfolded")?s("unfolded"):null;for(let u of["pinned","hidden","moved"])e[u]=s(u);e.groups=t.has(
"group")?t.getAll("group").filter(u=>u):null}writeFragment(){clearTimeout(this.saving),this.saving=0;let t=new URLSearchParams,{state:e}=this;for(let a of["quer\
y","min","max","thread","theme"])e[a]&&t.set(a,e[a]);e.tab!=="calls"&&t.set("tab",e.tab),(Math.abs(e.from)>.5||Math.abs(e.to-this.calls.span)>.5)&&(t.set("from",
String(Math.round(e.from))),t.set("to",String(Math.round(e.to)))),e.selection&&(t.set("a",String(Math.round(e.selection[0]))),t.set("b",String(Math.round(e.selection[1])))),
e.call>=0&&t.set("call",String(e.call)),e.func>=0&&t.set("func",String(e.func)),e.sort!=="start"&&t.set("sort",e.sort),e.down&&t.set("down","1"),e.order!=="trac\
e"&&t.set("order",e.order),e.unfolded&&t.set("unfolded",e.unfolded.join("."));for(let a of["pinned","hidden","moved"])e[a].length&&t.set(a,e[a].join("."));if(e.
groups)for(let a of e.groups.length?e.groups:[""])t.append("group",a);let n=["tab","from","to","a","b","call","func"].map(a=>t.get(a)).join(),r=String(t);if(r===
location.hash.slice(1)){this.place=n;return}let s=history.state?.steps??0;n===this.place||this.place===null?history.replaceState({steps:s},"","#"+r):history.pushState(
{steps:s+1},"","#"+r),this.place=n}goBack(){history.state?.steps&&history.back()}followAddress(){this.place=null,this.readFragment(),this.change({})}fullName(t){
return this.meta.functions[t].name}shortName(t){return this.meta.functions[t].short}nameOf(t){return this.shortName(this.calls.func[t])}value(t){return this.values.
get(t)}get values(){return this.valueMap??=new Map(this.meta.values??[])}valueMap=null;showDuration(t){return(this.calls.isPartial(t)?"≥ ":"")+this.format.time(
this.calls.duration[t])}endingOf(t){let e={1:"left by a tail call",2:"left by the tail call inside it",3:"no exit record: ended with its caller",4:"still open a\
t the end of the trace",5:"left by an exception or longjmp"},n=this.calls.ends[t];return[n>=6&&"began before",e[n%6]].filter(Boolean).join(", ")}selfParts(t){let{
calls:e}=this,n=e.threadOf(t),r={blocked:0,queued:0,recorder:0,unknown:0};if(n.waitEnd===n.wait0)return"";let s=e.start[t],a=i=>{let c=e.waited(n,s,i);for(let u of[
"blocked","queued","recorder","unknown"])r[u]+=c[u]};for(let i of e.inside(t))a(e.start[i]),s=e.endOf(i);a(e.endOf(t));let l=Math.max(0,e.selfOf(t)-r.blocked-r.
queued-r.recorder-r.unknown);return[l&&`${this.format.time(l)} on CPU`,this.showWaits(r)].filter(Boolean).join(", ")}waitParts(t,e,n){let{waits:r}=this.calls,s={
blocked:0,queued:0,recorder:0,unknown:0},a=0;for(let l=O(t.wait0,t.waitEnd,i=>r.end[i]<e);l<t.waitEnd&&r.start[l]<=n;l++){let i=r.blocked[l]+r.queued[l]+r.recorder[l],
c=r.end[l]-r.start[l];for(let u of["blocked","queued","recorder"])s[u]+=r[u][l];i?a=Math.max(a,c-i):s.unknown+=c}return[this.showWaits(s),a>0&&`up to ${this.format.
time(a)} earlier`].filter(Boolean).join(", ")}showWaits(t){return[["blocked",t.blocked],["in the run queue",t.queued],["waiting for the recorder",t.recorder],["\
unknown",t.unknown]].filter(([,n])=>n>0).map(([n,r])=>`${this.format.time(r)} ${n}`).join(", ")}static expression(t){return new RegExp(t,/[A-Z]/.test(t.replace(
/\\./g,""))?"":"i")}matching=X(()=>this.state.query,()=>{let{query:t}=this.state;if(!t)return null;try{let e=o.expression(t),n=/\\[([]|[< ]/.test(t);return Uint8Array.
from(this.meta.functions,r=>e.test(r.short)||n&&e.test(r.name)?1:0)}catch{return null}});threads=X(()=>this.state.thread,()=>{let t=this.calls.threads.filter(e=>e.
calls>0);try{let e=o.expression(this.state.thread);return t.filter(n=>e.test(n.name))}catch{return t}});bounds(){let{min:t,max:e}=this.state,n=r=>this.format.parse(
r);return[n(t)||0,e&&!isNaN(n(e))?n(e):1/0]}scope(){return{threads:this.state.thread?this.threads().map(t=>t.index):null,range:this.state.selection}}filter(){let[
t,e]=this.bounds();return{...this.scope(),functions:this.matching(),min:t,max:e}}scopeKey(){return JSON.stringify([this.state.thread,this.state.selection])}filterKey(){
return JSON.stringify([this.state.query,this.state.min,this.state.max])+this.scopeKey()}found=new B(this,()=>this.filterKey(),()=>this.engine.ask("find",this.filter()));listed=new B(
this,()=>this.filterKey()+this.state.sort+this.state.down,()=>this.engine.ask("list",this.filter(),this.state.sort,this.state.down));summed=new B(this,()=>this.
scopeKey(),async()=>{let t=await this.engine.ask("sum",this.scope());return{...t,paths:new pt(t.tree)}});rates=new B(this,()=>this.state.thread,()=>this.engine.
ask("rates",{...this.scope(),range:null},1024));profiles=new B(this,()=>"",()=>this.engine.ask("profiles"));details=new B(this,()=>this.scopeKey()+this.state.func,
async()=>{let t=this.state.func;return{func:t,...await this.engine.ask("details",t,this.scope())}});get isFiltered(){let t=this.state;return!!(t.query||t.min||t.
max||t.thread||t.selection)}get isWhole(){return!!this.meta.octaves&&!this.state.thread&&!this.state.selection}functionSums(){if(this.isWhole)return{time:this.allSelf(),
of:e=>this.meta.functions[e].all};let t=this.summed.get();return t&&{time:t.paths.time,of:e=>oe(t,e)}}allSelf=X(()=>"",()=>this.meta.functions.reduce((t,e)=>t+e.
all.self,0));where(){let{state:t,meta:e}=this,n=this.threads(),r=n.length,s=r===1&&(t.thread||!e.pruned&&!e.counted)?n[0].name:t.thread?`${E(r)} threads`:"all t\
hreads";return t.selection?`${s}, ${this.format.moment(t.selection[0])} to ${this.format.moment(t.selection[1])}`:s}ofPart(){let t=[],{left:e,pruned:n}=this.meta;
return e&&t.push(`the ${F(e,"shorter call")} that ${e===1?"is":"are"} not in the page`),n&&t.push(`the ${F(n,"call")} that the recorder dropped`),t.length?`; wi\
thout ${t.join(" and ")}; their time counts as self time of their callers`:""}choose(t,e){let n={call:t},{calls:r,state:s}=this;if(t>=0){n.func=r.func[t];let a=r.
start[t],l=r.endOf(t),i=s.to-s.from;if(e){let c=Math.max((l-a)*.1,5);n.from=a-c,n.to=l+c}else(l<s.from||a>s.to)&&(n.from=a-i/2,n.to=a+i/2)}this.change(n)}pickFunction(t){
this.change({func:t,tab:"function"})}listCalls(t,e={}){this.change({query:"^"+o.escaped(this.fullName(t))+"$",tab:"calls",sort:"duration",down:!0,func:t,...e})}markCall(){
let t=this.state.call,{start:e}=this.calls;t>=0&&this.change({selection:[e[t],Math.max(this.calls.endOf(t),e[t]+1)]})}static escaped(t){return t.replace(/[\\^$.*+?()[\]{}|]/g,
"\\$&")}};function X(o,t){let e=null,n;return()=>{let r=o();return r!==e&&(e=r,n=t()),n}}function xt(o,t,e=.5){let{from:n,to:r}=o.state,s=r-n,a=n+s*e;o.change({from:a-s*t*e,to:a+s*t*(1-e)})}function ot(o,t){let{from:e,to:n}=o.state,r=(n-e)*t;o.change(
{from:e+r,to:n+r})}function le(o){let{from:t,to:e,call:n,selection:r}=o.state;n>=0&&(o.choose(n,!0),o.state.from!==t||o.state.to!==e)||(r&&(t!==r[0]||e!==r[1])?
o.change({from:r[0],to:r[1]}):o.change({from:0,to:o.calls.span}))}function Je(o,t,e){let{calls:n,format:r}=o,s=o.selfParts(e),a=n.parentOf(e);H(t,o.fullName(n.func[e]),
`${o.showDuration(e)}, self ${r.time(n.selfOf(e))}`,s&&"self: "+s,`at ${r.moment(n.start[e])}`,r.date(n.start[e]),a>=0&&"called from "+o.nameOf(a),o.endingOf(e),
o.value(e))}function de(o,t){let{canvas:e,pane:n}=t,{state:r,calls:s,format:a}=o,l=null,i=null,c=!1,u=d=>{let h=t.view();return Math.max(0,Math.min(s.span,h.from+
(d-h.left)*h.perPixel))};e.addEventListener("pointerdown",d=>{if(wt(),d.button!==0||d.pointerType==="touch")return;c=!1;let h=t.at(d.offsetX,d.offsetY);h.gutter?
i=h.lane&&!h.lane.group?{lane:h.lane,y:d.offsetY}:null:l={x:d.offsetX,time:u(d.offsetX)},e.setPointerCapture(d.pointerId)}),e.addEventListener("pointermove",d=>{
if(i&&(t.drop!==null||Math.abs(d.offsetY-i.y)>4)){t.drop=ae(t,d.offsetY).y,e.style.cursor="grabbing",o.change({}),H(d);return}if(l&&(t.range||Math.abs(d.offsetX-
l.x)>3)){let f=u(d.offsetX);t.range=[Math.min(l.time,f),Math.max(l.time,f)],o.change({}),H(d);return}let h=t.at(d.offsetX,d.offsetY);e.style.cursor=h.gutter||h.
call>=0?"pointer":"crosshair",h.call>=0?Je(o,d,h.call):h.wait?H(d,"off CPU",h.wait,"before "+a.moment(h.time)):h.event?H(d,h.event.text,"at "+a.moment(h.event.at),
a.date(h.event.at)):h.lane&&(h.gutter||h.lane.group||!h.lane.unfolded)?Qe(o,t,d,h.lane,h.gutter):H(d)}),e.addEventListener("pointerup",d=>{let{range:h}=t;c=!!h||
t.drop!==null,i&&t.drop!==null&&Ze(o,t,i.lane,ae(t,d.offsetY).before),l=i=t.range=t.drop=null,h&&h[0]<h[1]&&o.change({selection:h})}),e.addEventListener("pointe\
rcancel",()=>{l=i=t.range=t.drop=null}),e.addEventListener("click",d=>{if(c)return;let h=t.at(d.offsetX,d.offsetY),{lane:f}=h;f&&(h.gutter||f.group||!f.unfolded)?
ce(t,f):o.choose(h.call,!1)}),e.addEventListener("contextmenu",d=>{let{lane:h}=t.at(d.offsetX,d.offsetY);h&&(d.preventDefault(),H(d),ie(o,t,h,d.clientX,d.clientY))}),
e.addEventListener("pointerleave",d=>H(d)),e.addEventListener("dblclick",d=>{let{call:h}=t.at(d.offsetX,d.offsetY);h>=0&&o.choose(h,!0)}),e.addEventListener("wh\
eel",d=>{let h=t.view();if(d.shiftKey||Math.abs(d.deltaX)>Math.abs(d.deltaY))ot(o,(d.deltaX||d.deltaY)/1e3);else if(d.ctrlKey||d.metaKey)xt(o,Math.pow(1.002,d.deltaY),
Math.max(0,(d.offsetX-h.left)/(h.width-h.left)));else return;d.preventDefault()},{passive:!1}),e.addEventListener("keydown",d=>{if(d.ctrlKey||d.metaKey||d.altKey)
return;let h=r.call>=0?t.laneOf(s.threadOf(r.call)):t.layout.lanes[0];if(d.key==="l"&&h){let p=e.getBoundingClientRect();ie(o,t,h,p.left+20,p.top+Math.max(0,t.top(
h)));return}if(!d.key.startsWith("Arrow"))return;if(d.preventDefault(),r.call<0){d.key==="ArrowDown"||d.key==="ArrowUp"?t.scrollTo(t.scrolled()+(d.key==="ArrowD\
own"?40:-40)):ot(o,d.key==="ArrowRight"?.2:-.2);return}let f=s.neighbour(r.call,{ArrowUp:"outer",ArrowDown:"inner",ArrowLeft:"previous",ArrowRight:"next"}[d.key]);
f>=0&&(t.reveal(f),o.choose(f,!1))}),C("menu").addEventListener("focusout",d=>{C("menu").contains(d.relatedTarget)||wt()}),n.addEventListener("scroll",()=>o.change(
{})),new ResizeObserver(()=>o.change({})).observe(e)}function ce(o,t){t.group?o.toggleGroup(t.group):o.fold(t.threads,!t.unfolded)}function Qe(o,t,e,n,r){let s=n.
threads.reduce((c,u)=>c+u.calls,0),{format:a,meta:l}=o,i=c=>n.threads.reduce((u,d)=>u+c(d),0);H(e,n.name,n.group&&F(n.threads.length,"thread"),F(s,"call"),`${a.
time(i(c=>t.busyOf(c)))} in calls${l.offCPU?` on CPU, ${a.time(i(c=>t.blockedOf(c)))} blocked`:""}`,`click to ${n.group?n.unfolded?"hide its threads":"show its \
threads":n.unfolded?"fold":"unfold"}`+(r?(n.group?"":", drag to move")+", right-click for more":""))}function ae(o,t){let{lanes:e}=o.layout;for(let r of e)if(t<
o.top(r)+r.height/2)return{y:o.top(r),before:r.threads[0].index};let n=e[e.length-1];return{y:n?o.top(n)+n.height:t,before:null}}function Ze(o,t,e,n){let{index:r}=e.
threads[0],s=t.layout.lanes.flatMap(l=>l.inGroup?[]:l.threads.map(i=>i.index)).filter(l=>l!==r),a=n===null?-1:s.indexOf(n);s.splice(a<0?s.length:a,0,r),o.change(
{moved:s})}var wt=()=>{C("menu").hidden=!0};function ie(o,t,e,n,r){let s=C("menu"),{state:a}=o,l=e.threads.map(d=>d.index),i=(d,h)=>{let f=et(d,"",()=>{wt(),h(),
t.canvas.focus()});return f.setAttribute("role","menuitem"),f},c=e.group?"^("+e.threads.map(d=>q.escaped(d.name)).join("|")+")$":"^"+q.escaped(e.name)+"$";s.replaceChildren(
i(e.group?e.unfolded?"close the group":"show its threads":e.unfolded?"fold":"unfold",()=>ce(t,e)),a.thread===c?i("all threads",()=>o.change({thread:""})):i(e.group?
"only these threads":"only this thread",()=>{o.change({thread:c}),e.group||t.fold(e.threads,!0)}),...e.group?[]:[e.pinned?i("unpin",()=>o.change({pinned:a.pinned.
filter(d=>!l.includes(d))})):i("pin to the top",()=>o.change({pinned:[...a.pinned,...l]}))],i("hide",()=>o.change({hidden:[...a.hidden,...l]}))),s.hidden=!1,s.style.
left=Math.min(n,innerWidth-s.offsetWidth-4)+"px",s.style.top=Math.min(r,innerHeight-s.offsetHeight-4)+"px";let u=Array.from(s.querySelectorAll("button"));u[0].focus(),
s.onkeydown=d=>{let h=u.indexOf(document.activeElement);if(d.key==="Escape")wt(),t.canvas.focus();else if(d.key==="ArrowDown")u[(h+1)%u.length].focus();else if(d.
key==="ArrowUp")u[(h+u.length-1)%u.length].focus();else return;d.preventDefault(),d.stopPropagation()}}function _(o,t=!0){let e=devicePixelRatio||1,n=o.clientWidth,r=o.clientHeight,s=Math.round(n*e),a=Math.round(r*e);(o.width!==s||o.height!==a)&&Object.assign(o,{
width:s,height:a});let l=o.getContext("2d");return l.setTransform(e,0,0,e,0,0),t&&l.clearRect(0,0,n,r),l.font="11px system-ui, sans-serif",l.textBaseline="middl\
e",{g:l,width:n,height:r,scale:e}}var Z=class{image=null;data=new Uint32Array(0);width=0;height=0;resize(t,e){this.image&&this.width===t&&this.height===e||(this.
image=new ImageData(Math.max(t,1),Math.max(e,1)),this.data=new Uint32Array(this.image.data.buffer),this.width=Math.max(t,1),this.height=Math.max(e,1))}repeat(t,e){
let n=this.width,r=Math.min(e,this.height);for(let s=t+1;s<r;s++)this.data.copyWithin(s*n,t*n,(t+1)*n)}fill(t,e,n,r,s){let a=Math.max(0,e),l=Math.min(this.width,
e+r),i=Math.min(this.height,n+s);if(a<l)for(let c=Math.max(0,n);c<i;c++)this.data.fill(t,c*this.width+a,c*this.width+l)}veil(t,e,n,r,s,a){let l=Math.max(0,n),i=Math.
min(this.width,n+s),c=Math.min(this.height,r+a),u=3*((t&16579836)>>>2);for(let d=Math.max(0,r);d<c;d++)for(let h=d*this.width+l;h<d*this.width+i;h++){let f=this.
data[h];f!==e&&(this.data[h]=(4278190080|((f&16579836)>>>2)+u)>>>0)}}hatch(t,e,n,r,s){let a=Math.max(0,e),l=Math.min(this.width,e+r),i=Math.min(this.height,n+s);
for(let c=Math.max(0,n);c<i;c++)for(let u=a;u<l;u++)(u+c)%6<2&&(this.data[c*this.width+u]=t)}put(t){t.putImageData(this.image,0,0)}};function K(o,t,e){if(e<12)return"";
let n=Math.ceil(e/3),r=t.length;if(r<=n&&o.measureText(t).width<=e)return t;let s=O(0,Math.min(r,n),a=>o.measureText("…"+t.slice(r-a-1)).width<=e);return s>1?
"…"+t.slice(r-s):""}var ue=(o,t)=>Math.max(o.depth,2)*17+t+1;function _e({threads:o,order:t,moved:e,weight:n}){let r=new Map(e.map((s,a)=>[s,a]));if(e.length)return o.toSorted((s,a)=>(r.
get(s.index)??1/0)-(r.get(a.index)??1/0)||s.index-a.index);switch(t){case"trace":return o;case"name":return o.toSorted((s,a)=>s.name.localeCompare(a.name,"en",{
numeric:!0})||s.index-a.index);case"start":return o.toSorted((s,a)=>s.start-a.start||s.index-a.index);default:{let s=new Map(o.map(a=>[a,n(a)]));return o.toSorted(
(a,l)=>s.get(l)-s.get(a)||a.index-l.index)}}}function tn(o,t,e,n){if(n.unfolded)return new Set(n.unfolded);if(o.length===1)return new Set([o[0].index]);let r=new Set,
s=n.spare-t*e;for(let a of o.toSorted((l,i)=>i.calls-l.calls||l.index-i.index)){if(s-=ue(a,n.above)-e,s<0)break;r.add(a.index)}return r}function en(o,t){if(t.groups)
return new Set(t.groups);let e=new Set(o.size===1?o.keys():[]),n=t.room-o.size*14;for(let[r,s]of Array.from(o).sort((a,l)=>a[1].length-l[1].length))n-=s.length*
14,n>=0&&s.length>1&&e.add(r);return e}function he(o){let t=new Set(o.hidden),e=new Set(o.pinned),n=_e(o).filter(v=>!t.has(v.index)),r=new Map,s=o.threads.length>
40;if(s)for(let v of n){let x=r.get(v.pool);x?x.push(v):r.set(v.pool,[v])}let a=en(r,o),l=[],i=[],c=(v,x)=>({threads:[v],group:"",inGroup:x,name:v.name,pinned:e.
has(v.index)}),u=new Set;for(let v of n){e.has(v.index)&&i.push(c(v,!1));let x=r.get(v.pool)??[];if(x.length<2)e.has(v.index)||l.push(c(v,!1));else if(!u.has(v.
pool)&&(u.add(v.pool),l.push({threads:x,group:v.pool,inGroup:!1,name:v.pool,pinned:!1}),a.has(v.pool)))for(let M of x)e.has(M.index)||l.push(c(M,!0))}let d=l.length+
i.length,h=Math.max(14,Math.min(20,Math.floor(o.room/Math.max(d,1)))),f=tn(s?[]:n,d,h,o),p=v=>{let x=0;return[v.map(k=>{let S=!k.group&&f.has(k.threads[0].index),
w=S?ue(k.threads[0],o.above):h,T={...k,unfolded:k.group?a.has(k.group):S,y:x,height:w};return x+=w,T}),x]},[m,b]=p(i),[g,A]=p(l);return{pinned:m,lanes:g,pinnedHeight:b,
height:A}}var U=22,tt=class o{constructor(t){this.page=t;this.events=t.calls.threads.map(()=>[]);for(let e of t.meta.events)this.events[e.thread].push(e);this.deepest=t.calls.
threads.reduce((e,n)=>Math.max(e,n.depth),1),t.onDraw(()=>this.draw())}page;canvas=C("canvas");pane=C("lanes");gutter=150;layout={pinned:[],lanes:[],pinnedHeight:0,
height:0};range=null;drop=null;laid={key:"",by:void 0};pixels=new Z;byThread=new Map;stateCache=new Map;events;deepest;get above(){return(this.gutter?9:20)+(this.
page.meta.offCPU?6:0)}busyOf(t){return Math.max(0,this.timeOf(t,"open")-this.timeOf(t,"inside"))}blockedOf(t){return this.timeOf(t,"blocked")}timeOf(t,e){let n=this.
page.profiles.get()?.levels[t.index].at(-1)[e];return n?n.reduce((r,s)=>r+s,0)/n.length*this.page.calls.span:0}weight(t){let{order:e}=this.page.state;if(e==="bu\
sy")return this.busyOf(t);if(e==="blocked")return this.blockedOf(t);let n=this.page.found.get()?.rows;return n?n.from[t.row0+t.depth]-n.from[t.row0]:t.calls}static room(){
return Math.max(120,innerHeight-240)}lay(){let{state:t}=this.page,e=["busy","blocked","selected"].includes(t.order),n=e?this.page.found.get():void 0;this.gutter=
this.canvas.clientWidth<600?0:150;let r=JSON.stringify([t.thread,t.order,t.moved,t.pinned,t.hidden,t.groups,t.unfolded,this.gutter,innerHeight,e&&!!this.page.profiles.
get()]);if(!(r===this.laid.key&&n===this.laid.by)){this.laid={key:r,by:n},this.layout=he({threads:this.page.threads(),order:t.order,moved:t.moved,pinned:t.pinned,
hidden:t.hidden,groups:t.groups,unfolded:t.unfolded,weight:s=>this.weight(s),room:o.room(),spare:innerHeight*(innerHeight<600?.3:.45),above:this.above}),this.byThread.
clear();for(let s of[...this.layout.lanes,...this.layout.pinned])for(let a of s.threads)this.byThread.set(a,s);for(let s of[...this.layout.lanes,...this.layout.
pinned])s.group||this.byThread.set(s.threads[0],s);C("tall").style.height=Math.min(this.height,15e6)+"px"}}get height(){return this.layout.pinnedHeight+this.layout.
height}laneOf(t){return this.byThread.get(t)}scrolled(){let{pane:t}=this,e=t.scrollHeight-t.clientHeight;return e>0?t.scrollTop/e*Math.max(0,this.height+U-t.clientHeight):
0}scrollTo(t){let{pane:e}=this,n=this.height+U-e.clientHeight;n>0&&(e.scrollTop=t/n*(e.scrollHeight-e.clientHeight))}fold(t,e){let{lanes:n,pinned:r}=this.layout,
s=new Set([...n,...r].filter(a=>a.unfolded&&!a.group).map(a=>a.threads[0].index));for(let a of t)e?s.add(a.index):s.delete(a.index);this.page.change({unfolded:Array.
from(s)})}toggleGroup(t){let e=this.layout.lanes.filter(n=>n.group&&n.unfolded).map(n=>n.group);this.page.change({groups:e.includes(t)?e.filter(n=>n!==t):[...e,
t]})}reveal(t){let{calls:e,state:n}=this.page,r=e.threadOf(t),s=this.laneOf(r);if(s)s.group&&!s.unfolded&&this.toggleGroup(s.group);else{if(!n.hidden.includes(r.
index))return;this.page.change({hidden:n.hidden.filter(c=>c!==r.index)})}(s?.group||!s?.unfolded)&&this.fold([r],!0),this.lay();let a=this.laneOf(r);if(!a||a.pinned)
return;let l=a.y+this.above+e.depth[t]*17,i=this.pane.clientHeight-U-this.layout.pinnedHeight;(l<this.scrolled()||l+17>this.scrolled()+i)&&this.scrollTo(l-i/2)}top(t){
return U+t.y+(this.layout.pinned.includes(t)?0:this.layout.pinnedHeight-this.scrolled())}laneAt(t){if(t<U)return;let e=(l,i)=>l[O(0,l.length,c=>l[c].y+l[c].height<=
i)],n=t-U,{pinned:r,lanes:s,pinnedHeight:a}=this.layout;return n<a?e(r,n):e(s,n-a+this.scrolled())}view(t=this.canvas.clientWidth){let{state:e}=this.page,n=this.
gutter,r=(e.to-e.from)/Math.max(1,t-n),s=Math.round(e.from/r)*r;return{left:n,width:t,perPixel:r,from:s,to:s+(t-n)*r,x:a=>n+(a-s)/r}}at(t,e){let n=this.view(),r=this.
laneAt(e),s=n.from+(t-n.left)*n.perPixel,a={lane:r,call:-1,event:null,wait:"",gutter:t<n.left,time:s};if(!r||a.gutter||r.group)return a;let l=r.threads[0],i=e-this.
top(r)-this.above,c=n.perPixel;if((i<0||!r.unfolded)&&(a.event=this.events[l.index].find(f=>Math.abs(f.at-s)<=4*c)??null),r.unfolded&&i<0&&i>=-7&&(a.wait=this.page.
waitParts(l,s-c,s+c)),a.event||i<0||!r.unfolded)return a;let{calls:u}=this.page,d=Math.floor(i/17),h=this.page.found.get()?.rows;for(let f of h?[u.row(l,d,h),u.
row(l,d)]:[u.row(l,d)]){let p=Dt(f,u,s-c),m=p+1<f.length&&u.start[f[p+1]]<=s?p+1:p;if(m<f.length&&u.start[f[m]]<=s+c){a.call=f[m];break}}return a}statesOf(t,e,n){
let r=t.group||String(t.threads[0].index),s=Math.ceil((e.width-e.left)*n),a=e.perPixel/n,l=this.page.profiles.get(),i=[e.from,a,s,t.threads.length,!!l].join(),c=this.
stateCache.get(r);if(c?.key===i)return c.states;let u=new nt(this.page.calls,e.from,a,s),d=l?.pools[t.group];if(d?.threads!==t.threads.length||!u.addProfile(d.levels,
$t))for(let f of t.threads)(l?!u.addProfile(l.levels[f.index],l.parts):f.calls<1e4)&&u.add(f);let h=u.finish();return this.stateCache.set(r,{key:i,states:h}),h}kinds(t){
let e=this.statesOf(t,this.view(),devicePixelRatio||1),n=[];for(let r=0;r<e.open.length;r++)vt(e,r)!==n[n.length-1]&&n.push(vt(e,r));return n}draw(){this.lay();
let{g:t,width:e,height:n,scale:r}=_(this.canvas,!1),{pixels:s,page:a,layout:l}=this,i=this.view(e),{theme:c}=a,u=a.format.ticks(i.from,i.to,i.perPixel);s.resize(
this.canvas.width,this.canvas.height);let d=g=>Math.round(g*r),h=ht(c.pixel.back,c.pixel.line,.5);s.fill(c.pixel.back,0,0,s.width,1);for(let{at:g}of u.marks)i.x(
g)>=i.left&&s.fill(h,d(i.x(g)),0,1,1);s.repeat(0,s.height);let f=[],p=[],m=(g,A,v)=>{let x=O(0,g.length,M=>this.top(g[M])+g[M].height<A);for(let M=x;M<g.length&&
this.top(g[M])<v;M++)p.push(g[M]),g[M].unfolded&&!g[M].group?this.drawLane(g[M],A,v,i,r,c,f):this.drawSummary(g[M],A,v,i,r,c)},b=U+l.pinnedHeight;m(l.pinned,U,Math.
min(n,b)),m(l.lanes,b,n),s.put(t),this.drawTexts(t,f,i,c);for(let g of p)t.save(),t.beginPath(),t.rect(0,g.pinned?U:b,e,n),t.clip(),this.drawEvents(t,g,i,c),this.
drawName(t,g,g.pinned?U:b,i,c),t.restore();l.pinnedHeight&&(t.fillStyle=c.css.faint,t.fillRect(0,b-1,e,2)),this.drawChosen(t,n,i,c),this.drawAxis(t,u,i,c)}drawLane(t,e,n,r,s,a,l){
let{pixels:i,page:c}=this,{calls:u}=c,d=t.threads[0],h=this.top(t)+this.above,f=w=>Math.round(w*s),p=c.found.get()?.rows??null,m=f(r.left),b=Math.min(n,h+d.depth*
17);for(let w=Math.max(0,Math.floor((e-h)/17));w<d.depth&&h+w*17<n;w++){let T=h+w*17,P=f(Math.max(T,e)),N=f(Math.min(T+17,n))-(T+17<n?1:0);if(P>=N||P>=i.height)
continue;let $=T+17/2,D=$>e+4?$:-1;this.drawRow(u.row(d,w),P,m,r,s,a,p?a.pixel.dim:0,D,l),p&&this.drawRow(u.row(d,w,p),P,m,r,s,a,0,D,l),i.repeat(P,N)}if(!c.meta.
offCPU)return;let g=this.statesOf(t,r,s),A=h-7,v=f(Math.max(A,e)),x=f(Math.max(A+5,e)),M={running:a.pixel.running,blocked:a.pixel.blocked,queued:a.pixel.queued,
recorder:a.pixel.recorder,unknown:a.pixel.faint},k=f(Math.max(h,e)),S=f(b);for(let w=0,T=g.open.length;w<T;){let P=vt(g,w),N=w+1;for(;N<T&&vt(g,N)===P;)N++;if(P!==
"absent"){if(x>v&&i.fill(M[P],m+w,v,N-w,x-v),P==="unknown")i.hatch(a.pixel.back,m+w,k,N-w,S-k);else if(P!=="running"){let $=ht(a.pixel.back,M[P],.4);i.veil($,a.
pixel.back,m+w,k,N-w,S-k)}}w=N}}drawRow(t,e,n,r,s,a,l,i,c){let{start:u,duration:d,func:h}=this.page.calls,f=t.length,{from:p,to:m}=r,b=r.perPixel/s,{data:g,width:A}=this.
pixels,v=e*A+n,x=A-n,M=a.functions,k=Dt(t,this.page.calls,p),S=0;for(;k<f;){let w=t[k],T=u[w];if(T>m)break;let P=(T-p)/b,N=P+d[w]/b,$=Math.max(Math.round(P),0),
D=Math.min(Math.max(Math.round(N),$+1),x);if(D>S){let W=l||M[h[w]],dt=D-$>3?D-1:D;for(let G=v+Math.max($,S),Et=v+dt;G<Et;G++)g[G]=W;S=D,!l&&i>=0&&D-$>24*s&&c.push(
{x:r.left+$/s,y:i,width:(D-$)/s,func:h[w]})}if(N-P>=1){k++;continue}let lt=p+(Math.floor(P)+1)*b,V=1;for(;k+V<f&&u[t[k+V]]+d[t[k+V]]<lt;)V*=2;k=O(Math.max(k+(V>>
1),k+1),Math.min(k+V,f),W=>u[t[W]]+d[t[W]]<lt)}}drawSummary(t,e,n,r,s,a){let{pixels:l}=this,i=this.statesOf(t,r,s),c=Math.round(r.left*s),u=this.top(t)+1,d=t.threads.
length,h=Math.round(u*s),f=Math.round((u+t.height-2)*s),p=f-h,m=[Math.max(h,Math.round(e*s)),Math.min(f,Math.round(n*s),l.height)],b=Array.from({length:16},(S,w)=>ht(
a.pixel.running,a.pixel.deepest,w/15)),{data:g,width:A}=l,{recorder:v,queued:x,blocked:M}=a.pixel,k=a.pixel.faint;for(let S=0,w=Math.min(i.open.length,A-c);S<w;S++){
let T=i.open[S],P=Math.max(0,T-i.inside[S]),N=P+i.recorder[S]+i.queued[S]+i.blocked[S]+i.unknown[S];if(N<=0)continue;let $=T>0?i.depth[S]/T:0,D=b[Math.min(15,Math.
round(15*Math.log2(Math.max($,1))/Math.log2(Math.max(this.deepest,2))))],lt=p/d,V=N>0?1:0,W=f,dt=0;for(let[G,Et]of[[P,D],[i.recorder[S],v],[i.queued[S],x],[i.blocked[S],
M],[i.unknown[S],k]]){if(G<=0)continue;dt+=G;let Yt=Math.max(h,Math.min(f-V,f-Math.round(Math.min(dt,d)*lt)));for(let Lt=Math.min(W,m[1])-1,Oe=Math.max(Yt,m[0]);Lt>=
Oe;Lt--)g[Lt*A+c+S]=Et;W=Math.min(W,Yt)}}}drawTexts(t,e,n,r){t.fillStyle=r.css.onColor;for(let{x:s,y:a,width:l,func:i}of e){let c=Math.max(s,n.left);t.fillText(
K(t,this.page.shortName(i),s+l-c-7),c+3,a)}}drawEvents(t,e,{left:n,perPixel:r,from:s,to:a},{css:l}){if(e.group)return;let i=this.events[e.threads[0].index],c=this.
top(e);t.fillStyle=l.accent,t.strokeStyle=l.back,t.lineWidth=1;for(let u=O(0,i.length,d=>i[d].at<s-5*r);u<i.length&&i[u].at<=a;){let d=n+(i[u].at-s)/r,h=c+1;d>=
n&&(t.beginPath(),t.moveTo(d,h+7),t.lineTo(d-3.5,h),t.lineTo(d+3.5,h),t.closePath(),t.fill(),t.stroke());let f=i[u].at+3*r;u=O(u+1,i.length,p=>i[p].at<f)}}drawName(t,e,n,{
left:r,width:s},{css:a}){let l=this.top(e),{height:i}=e,c=e.unfolded?"▾":"▸",u=e.unfolded&&!e.group,d=e.group?`${e.name} (${E(e.threads.length)})`:e.name;if(r){
t.fillStyle=e.pinned?a.panel:a.back,t.fillRect(0,Math.max(l,n),r-1,i);let h=e.inGroup?30:18,f=u?Math.max(l,Math.min(n,l+i-34))+4+17/2:l+i/2;t.fillStyle=a.faint,
t.fillText(c,h-12,f),u&&t.fillText(K(t,E(e.threads[0].calls)+(e.threads[0].calls===1?" call":" calls"),r-h-6),h,f+15),t.fillStyle=a.text,t.fillText(K(t,d,r-h-6),
h,f)}else{t.fillStyle=a.text,t.strokeStyle=a.back,t.lineWidth=3;let h=u?l+11:l+i/2;t.strokeText(`${c} ${d}`,4,h),t.fillText(`${c} ${d}`,4,h)}t.fillStyle=a.line,
(u||e.group||i>15)&&t.fillRect(0,l+i-1,s,1),t.fillRect(r-1,Math.max(l,n),1,i)}drawChosen(t,e,n,{css:r}){let{left:s,width:a,x:l}=n,{state:i,calls:c,format:u}=this.
page,d=this.range??i.selection;if(t.save(),t.beginPath(),t.rect(s,0,a-s,e),t.clip(),d){let[f,p]=[l(d[0]),l(d[1])];t.globalAlpha=.16,t.fillStyle=r.accent,t.fillRect(
f,U,p-f,e),t.globalAlpha=1,t.fillRect(f-1,U,1,e),t.fillRect(p,U,1,e);let m=u.time(d[1]-d[0]),b=t.measureText(m).width+12,g=Math.max(s,Math.min(a-b,(f+p-b)/2));t.
fillRect(g,e-24,b,18),t.fillStyle=r.back,t.fillText(m,g+6,e-15)}let h=i.call>=0?this.laneOf(c.threadOf(i.call)):void 0;if(h){let f=i.call,p=this.top(h),m=l(c.start[f]),
b=h.unfolded&&!h.group,g=b?p+this.above+c.depth[f]*17:p,A=b?17:h.height-1,v=Math.max(m,s-3),x=Math.min(Math.max(l(c.endOf(f)),m+3),a+3);t.strokeStyle=r.text,t.lineWidth=
2,g>U-17&&t.strokeRect(v,g-.5,x-v,A)}this.drop!==null&&(t.fillStyle=r.accent,t.fillRect(0,this.drop-1,a,3)),t.restore()}drawAxis(t,{anchor:e,marks:n},{left:r,width:s,
x:a},{css:l}){t.fillStyle=l.panel,t.fillRect(0,0,s,U);for(let{at:i,label:c}of n)t.fillStyle=l.line,t.fillRect(Math.round(a(i)),0,1,U),t.fillStyle=l.faint,t.fillText(
c,a(i)+4,U/2+1);r&&(t.fillStyle=l.panel,t.fillRect(0,0,r,U),t.fillStyle=l.text,e&&t.fillText(K(t,this.page.format.moment(e),r-16),8,U/2+1)),t.fillStyle=l.line,t.
fillRect(0,U-1,s,1)}};function vt(o,t){let e=Math.max(0,o.open[t]-o.inside[t]),n="absent",r=1-e-o.blocked[t]-o.queued[t]-o.recorder[t]-o.unknown[t];for(let[s,a]of[
["running",e],["blocked",o.blocked[t]],["queued",o.queued[t]],["recorder",o.recorder[t]],["unknown",o.unknown[t]]])a>r&&([n,r]=[s,a]);return n}var It=["query","min","max","thread"];function me(o,t,e){let{state:n}=o,r=C("tabs"),s=C("panels"),a=[],l=e.map(i=>{let c=y("button",{role:"tab",id:"tab-"+i.name,
"aria-controls":i.name,onclick:()=>o.change({tab:i.name})},i.title),u=y("section",{role:"tabpanel",id:i.name,"aria-labelledby":c.id});return r.append(c),s.append(
u),c.hidden=!!i.unavailable?.(o),c.hidden||a.push(i.name),{view:i,tab:c,panel:u,draw:i.start(o,u,t)}});r.addEventListener("keydown",i=>{let c=a.indexOf(n.tab),u={
ArrowRight:c+1,ArrowLeft:c-1,Home:0,End:a.length-1}[i.key];if(u===void 0)return;i.preventDefault();let d=a[(u+a.length)%a.length];o.change({tab:d}),C("tab-"+d).
focus()}),o.onDraw(()=>{for(let{view:i,tab:c,panel:u,draw:d}of l){let h=i.name===n.tab;u.hidden=!h,c.setAttribute("aria-selected",String(h)),c.tabIndex=h?0:-1,u.
setAttribute("aria-busy",String(h&&o.busy>0)),h&&d()}})}function nn(o){let t=[],{state:e,format:n}=o,r=C("time").value;for(let s of["query","thread"])try{q.expression(
e[s])}catch(a){t.push([s,a.message.replace(/^Invalid regular expression: /,"")])}for(let s of["min","max"])e[s].trim()&&isNaN(n.parse(e[s]))&&t.push([s,`${e[s]}\
 is not a time`]);return r.trim()&&!n.parseRange(r)&&t.push(["time","enter a time range, for example 1.2s - 1.25s"]),t}function fe(o,t){let{state:e,meta:n,calls:r,
format:s}=o,a=d=>C(d),l=C("order");for(let d of r.threads)d.calls&&C("threads").append(y("option",{value:"^"+q.escaped(d.name)+"$",label:d.name}));for(let d of It)
a(d).addEventListener("input",()=>o.change({[d]:a(d).value}));a("time").addEventListener("input",()=>o.change({selection:s.parseRange(a("time").value)})),C("fil\
ter").addEventListener("submit",d=>{d.preventDefault(),Kt(o,t,1)}),C("clear").addEventListener("click",()=>{a("time").value="",o.change({query:"",min:"",max:"",
thread:"",selection:null})}),C("theme").addEventListener("click",()=>o.change({theme:o.isDark?"light":"dark"}));let i=C("help");C("help-button").addEventListener(
"click",()=>i.showModal()),C("link").addEventListener("click",()=>rn(o)),C("fit-call").addEventListener("click",()=>{t.reveal(e.call),o.choose(e.call,!0)}),C("m\
ark-call").addEventListener("click",()=>o.markCall()),C("call-function").addEventListener("click",()=>o.pickFunction(e.func));let c={trace:"threads as recorded",
busy:"busiest threads",blocked:"most blocked threads",name:"threads by name",start:"threads by start",selected:"by selected calls"};for(let d of yt)(d!=="blocke\
d"||n.offCPU)&&l.append(y("option",{value:d},c[d]));l.addEventListener("change",()=>o.change({order:yt.find(d=>d===l.value)??"trace",moved:[]}));let u=()=>t.layout.
lanes.filter(d=>!d.group).flatMap(d=>d.threads);C("unfold").addEventListener("click",()=>t.fold(u(),!0)),C("fold").addEventListener("click",()=>o.change({unfolded:[],
groups:[]})),C("unhide").addEventListener("click",()=>o.change({hidden:[]})),on(t),sn(o,t,i),addEventListener("hashchange",()=>{document.activeElement?.blur(),o.
followAddress()}),o.onDraw(()=>{for(let p of It)document.activeElement!==a(p)&&a(p).value!==e[p]&&(a(p).value=e[p]);let d=e.selection?e.selection.map(p=>s.exact(
p)).join(" - "):"";document.activeElement!==a("time")&&String(s.parseRange(a("time").value))!==String(e.selection)&&(a("time").value=d),l.value=e.moved.length?"":
e.order,C("unhide").hidden=!e.hidden.length,C("unhide").textContent=`show ${F(e.hidden.length,"hidden thread")}`,C("lanes-controls").hidden=r.threads.length<2;let h=nn(
o),f=o.found.get();for(let p of[...It,"time"])a(p).setAttribute("aria-invalid",String(h.some(([m])=>m===p)));C("range").textContent=h.length?h.map(([,p])=>p).join(
"; "):[o.isFiltered&&f?`${E(f.count)} of ${E(r.n)} calls`:"",n.left?`${E(r.n)} of all ${E(r.n+n.left)} calls are in the page`:""].filter(p=>p).join("; "),C("cle\
ar").hidden=!o.isFiltered})}function Kt(o,t,e){let n=o.listed.get();if(!n?.length)return;let r=n.indexOf(o.state.call),s=n[r<0?0:(r+e+n.length)%n.length];t.reveal(
s),o.choose(s,!1)}async function rn(o){o.writeFragment();let t="copied";try{await navigator.clipboard.writeText(location.href)}catch{t="copy it from the address\
 bar"}C("link").textContent=t,setTimeout(()=>{C("link").textContent="copy link"},2e3)}function pe(o){let{calls:t,format:e}=o;o.onDraw(()=>{let n=o.state.call,r=C(
"chosen-text");if(C("chosen").hidden=n<0,n<0)return;let s=t.parentOf(n),a=o.selfParts(n);r.replaceChildren(y("strong",{},y("bdi",{},o.nameOf(n).slice(-300))),` ${o.
showDuration(n)}, self ${e.time(t.selfOf(n))}${a&&` (${a})`}, at ${e.moment(t.start[n])} on `,y("bdi",{},t.threadOf(n).name),s>=0?", called from ":"",y("bdi",{},
s>=0?o.nameOf(s).slice(-300):""),o.endingOf(n)&&"; "+o.endingOf(n),o.value(n)?"; "+o.value(n):""),r.title=[o.fullName(t.func[n]),e.date(t.start[n])].join(`
`)})}function on(o){let t=C("splitter"),{pane:e}=o,n=a=>{let l=Math.round(Math.max(60,Math.min(a,innerHeight-210)));e.style.height=100*l/innerHeight+"vh",t.setAttribute(
"aria-valuenow",String(Math.round(100*l/innerHeight)))};t.addEventListener("pointerdown",a=>t.setPointerCapture(a.pointerId)),t.addEventListener("pointermove",a=>{
t.hasPointerCapture(a.pointerId)&&n(a.clientY-e.getBoundingClientRect().top)}),t.addEventListener("keydown",a=>{let l={ArrowUp:-20,ArrowDown:20}[a.key];l&&n(e.clientHeight+
l)}),o.lay();let r=o.height+U+1,s=o.layout.lanes.some(a=>a.unfolded&&!a.group);n(Math.min(r,s?innerHeight*(innerHeight<600?.3:.45)+U:tt.room()+U+1))}function sn(o,t,e){
let n={w:()=>xt(o,.7),s:()=>xt(o,1.4285714285714286),a:()=>ot(o,-.2),d:()=>ot(o,.2),f:()=>le(o),m:()=>o.markCall(),n:()=>Kt(o,t,1),N:()=>Kt(o,t,-1),"?":()=>e.showModal(),
Backspace:()=>o.goBack(),"/":r=>{r.preventDefault(),C("query").focus()},Escape:()=>o.change({call:-1,selection:null})};addEventListener("keydown",r=>{if(r.ctrlKey||
r.metaKey||r.altKey||e.open)return;let s=r.target;if(s.tagName==="INPUT"||s.tagName==="SELECT"){r.key==="Escape"&&s.blur();return}Object.hasOwn(n,r.key)&&n[r.key](
r)})}var Mt=class{worker;waiting=new Map;last=0;constructor(t){let e=URL.createObjectURL(new Blob([t],{type:"text/javascript"}));this.worker=new Worker(e),this.worker.
onmessage=n=>{let{id:r,value:s,error:a}=n.data,{done:l,fail:i}=this.waiting.get(r);this.waiting.delete(r),a===void 0?l(s):i(new Error(a))},this.worker.onerror=n=>{
for(let{fail:r}of this.waiting.values())r(new Error(n.message||"the browser does not start its worker"))}}send(t,e=[]){return new Promise((n,r)=>{this.waiting.set(
t.id,{done:n,fail:r}),this.worker.postMessage(t,e)})}async load(t){let e=await this.send({id:++this.last,load:t});return{loaded:e,calls:new J(e.columns,e.threads,
e.rows,e.waits,e.length)}}ask(t,...e){return this.send({id:++this.last,name:t,args:e})}};function be(o){let t=new Map;for(let e of o.functions)e.short||=e.name,t.set(e.short,t.has(e.short));for(let e of o.functions)e.shared=!!t.get(e.short)&&e.short!==
e.name,e.all=null;for(let e of o.threads)e.pool||=e.name;o.pruned=o.counted=0}function ge(o,t){let e=n=>Array.from({length:n},t);for(let n of o.functions){let[r,
s,a,l,i,c,u,d,h,f]=e(10),p=e(6),m=[];n.all={count:r,open:s,counted:a,pruned:l,calls:r+s,timed:r-a-l,total:i,self:c,cpu:u,blocked:d,queued:h,recorder:f,max:p[5],
quantiles:p,bins:m},o.pruned+=l,o.counted+=a;let b=t(),g=t();for(let A=b;A<b+g;A++)m.push({from:o.octaves[A][0],to:o.octaves[A][1],n:t()});o.limited&&([n.all.allCalls,
n.all.callsMargin,n.all.allTotal,n.all.totalMargin]=e(4),n.all.estimated=t()>0,n.all.timeless=t()>0)}}var we=["meta","funcs","starts","durations","depths","ends","sums","waits"];async function kt(o){let t=atob(o),e=new Uint8Array(t.length);for(let r=0;r<t.length;r++)
e[r]=t.charCodeAt(r);let n=new Blob([e]).stream().pipeThrough(new DecompressionStream("deflate-raw"));return new Uint8Array(await new Response(n).arrayBuffer())}
function ye(o){let t=0;return()=>{let e=o[t++],n=e&127;for(let r=128;e>127;r*=128)e=o[t++],n+=(e&127)*r;return n}}async function st(o,t){let e=await kt(o);for(let n=0,
r=0;n<t.length;n++){let s=e[r++],a=s&127;for(let l=128;s>127;l*=128)s=e[r++],a+=(s&127)*l;t[n]=a}return t}async function xe(o){let t=JSON.parse(new TextDecoder().
decode(await kt(o.meta)));be(t);let e=t.threads.reduce((m,b)=>m+b.calls,0),[n,r,s,a,l]=await Promise.all([st(o.funcs,new Uint32Array(e)),st(o.starts,new Float64Array(
e)),st(o.durations,new Float64Array(e)),st(o.depths,new Uint32Array(e)),st(o.ends,new Uint8Array(e))]),i=0,c=0,u=0,d=0,h=t.threads.map((m,b)=>{let g=i+m.calls,A=0,
v=0;for(let M=i;M<g;M++)r[M]=A+=r[M],v=Math.max(v,a[M]+1),c=Math.max(c,A+s[M]);let x={index:b,name:m.name,pool:m.pool,calls:m.calls,first:i,end:g,depth:v,row0:u,
wait0:d,waitEnd:d+m.waits,start:m.calls?r[i]:1/0};return i=g,u+=v,d+=m.waits,x});for(let m of t.events)c=Math.max(c,m.at);t.octaves&&ge(t,ye(await kt(o.sums)));
let f=ye(await kt(o.waits)),p={start:new Float64Array(d),end:new Float64Array(d),blocked:new Float64Array(d),queued:new Float64Array(d),recorder:new Float64Array(
d)};for(let m of h)for(let b=m.wait0,g=0;b<m.waitEnd;b++)p.start[b]=g+=f(),p.end[b]=g+=f(),p.blocked[b]=f(),p.queued[b]=f(),p.recorder[b]=f();return{meta:t,calls:new J(
{func:n,start:r,duration:s,depth:a,ends:l},h,mt(h,a,null),p,c)}}function ve(o,t){let e=C("overview"),{state:n,calls:r}=o,s=()=>{let{g:l,width:i,height:c}=_(e),u=o.rates.get()??new Float64Array(1),d=t.gutter,{css:h}=o.theme,f=i-
d,p=u.length,m=x=>d+x/r.span*f,b=u.reduce((x,M)=>Math.max(x,M),0)||1;l.fillStyle=h.faint,l.globalAlpha=.6,l.beginPath(),l.moveTo(d,c),u.forEach((x,M)=>{l.lineTo(
d+M/p*f,c-x/b*(c-3)),l.lineTo(d+(M+1)/p*f,c-x/b*(c-3))}),l.lineTo(i,c),l.fill(),l.globalAlpha=1;let g=Math.max(d,m(n.from)),A=Math.min(i,m(n.to));if(l.fillStyle=
h.back,l.globalAlpha=.65,l.fillRect(d,0,g-d,c),l.fillRect(A,0,i-A,c),l.globalAlpha=1,l.fillStyle=l.strokeStyle=h.accent,n.selection&&l.fillRect(m(n.selection[0]),
c-3,Math.max(2,m(n.selection[1])-m(n.selection[0])),3),l.strokeRect(g+.5,.5,Math.max(A-g-1,2),c-1),!d)return;l.fillStyle=h.faint;let v=o.meta.left?"calls in the\
 page":o.format.rate(b*p,r.span)||"calls over time";l.fillText(K(l,v,d-12),8,c/2)},a=l=>{let i=(n.to-n.from)/2,c=(l.offsetX-t.gutter)/Math.max(1,e.clientWidth-t.
gutter)*r.span;o.change({from:c-i,to:c+i})};e.addEventListener("pointerdown",l=>{e.setPointerCapture(l.pointerId),a(l)}),e.addEventListener("pointermove",l=>{e.
hasPointerCapture(l.pointerId)&&a(l)}),new ResizeObserver(()=>o.change({})).observe(e),o.onDraw(s)}function z(o,{titles:t,label:e,role:n="grid",count:r,show:s,press:a,key:l}){let u=y("div",{class:"row head",role:"row","aria-rowindex":1},...t),d=y("div",{class:"\
space",role:"rowgroup"}),h=y("p",{class:"empty"},"none"),f=y("div",{class:"table",role:n,"aria-label":e,tabindex:"0"},y("div",{class:"top",role:"rowgroup"},u),d);
o.append(f,h);let p=[],m=-1,b=()=>Math.max(1,r()*22/15e6),g=()=>Math.max(22,f.clientHeight-u.offsetHeight);function A(){let x=r(),M=Math.min(x,Math.ceil(g()/22)+
1);h.hidden=x>0,f.hidden=x===0,f.setAttribute("aria-rowcount",String(x+1)),d.style.height=Math.min(x*22,15e6)+"px";let k=f.scrollTop*b()/22,S=Math.max(0,Math.min(
Math.floor(k),x-M+1));for(;p.length<M;){let w=y("div",{class:"row",role:"row",id:e.replace(/ /g,"-")+"-row-"+p.length});w.addEventListener("click",()=>{m=w.line,
a(w.line)}),p.push(w),d.append(w)}f.removeAttribute("aria-activedescendant"),p.forEach((w,T)=>{w.hidden=T>=M||S+T>=x,!w.hidden&&(w.line=S+T,w.style.top=(b()===1?
w.line*22:f.scrollTop+(w.line-k)*22)+"px",w.setAttribute("aria-rowindex",String(w.line+2)),w.classList.toggle("odd",w.line%2===1),w.line===m&&f.setAttribute("ar\
ia-activedescendant",w.id),s(w,w.line))})}function v(x){m=x;let M=x*22/b(),k=M+22/b();M<f.scrollTop?f.scrollTop=M:k>f.scrollTop+g()&&(f.scrollTop=Math.ceil(k-g()))}
return f.addEventListener("scroll",A),f.addEventListener("keydown",x=>{let M=r(),k=Math.max(1,Math.floor(g()/22)-1);if(!M||x.target!==f||x.ctrlKey||x.metaKey||x.
altKey)return;let S={ArrowDown:m+1,ArrowUp:m-1,PageDown:m+k,PageUp:m-k,Home:0,End:M-1}[x.key];if(S===void 0){l&&m>=0&&m<M&&l(x,m);return}x.preventDefault(),v(Math.
max(0,Math.min(M-1,S))),a(m)}),new ResizeObserver(A).observe(f),{draw:A,reach:v}}var R=(o,t="")=>y("span",{class:t,role:"gridcell",title:o},o),Tt=o=>y("span",{class:"\
thread",role:"gridcell",title:o},Ot(o));function Y(o,t,...e){let n=o.meta.functions[t],r=y("span",{class:"swatch"});r.style.background=o.theme.functionColor(t);
let s=n.name.slice(0,2e3),a=n.shared?[y("bdi",{class:"full-name"},s)]:[];return y("span",{class:"name",role:"gridcell",title:s},...e,r,Ot(n.short.slice(-2e3)),...a)}
function At(o,t){let e=R(o,"number narrow share");return e.style.setProperty("--share",100*t+"%"),e}function j(o,t,e){return y("div",{class:t,role:"columnheader"},
e?y("button",{type:"button",onclick:e},o):o)}function St(o,t,e){t?o.setAttribute("aria-sort",e?"descending":"ascending"):o.removeAttribute("aria-sort")}var an={function:["function","name"],thread:["thread","thread"],start:["start","number start"],duration:["duration","number"],self:["self","number"],depth:["dep\
th","number narrow"],parent:["called from","name"]},ln=["duration","self","depth"],Me={name:"calls",title:"calls",start(o,t){let{state:e,calls:n}=o,r=()=>o.listed.
get()??new Uint32Array(0),s=qt.map(c=>{let u=j(...an[c],()=>o.change(e.sort===c?{down:!e.down}:{sort:c,down:ln.includes(c)}));return u.dataset.name=c,u}),a=z(t,
{titles:s,label:"calls",count:()=>r().length,show:(c,u)=>{let d=r()[u],h=n.parentOf(d);c.setAttribute("aria-selected",String(d===e.call)),c.replaceChildren(Y(o,
n.func[d]),Tt(n.threadOf(d).name),R(o.format.moment(n.start[d]),"number start"),R(o.showDuration(d),"number"),R(o.format.time(n.selfOf(d)),"number"),R(String(n.
depth[d]),"number narrow"),h<0?R("","name"):Y(o,n.func[h]))},press:c=>o.choose(r()[c],!1),key:(c,u)=>{c.key==="Enter"&&o.choose(r()[u],!0)}}),l=-1,i=null;return()=>{
for(let c of s)St(c,c.dataset.name===e.sort,e.down);if(e.call!==l||i!==r()){let c=e.call!==l||e.call>=0;[l,i]=[e.call,r()];let u=c&&l>=0?i.indexOf(l):-1;u>=0&&a.
reach(u)}a.draw()}}};var ke={name:"events",title:"events",unavailable:o=>!o.meta.events.length,start(o,t){let{state:e,meta:n}=o,r=[["number start","time"],["thread","thread"],["name",
"event"]].map(([i,c])=>j(c,i)),s=X(()=>e.thread+e.selection,()=>{let[i,c]=e.selection??[-1/0,1/0],u=new Set(o.threads().map(d=>d.index));return n.events.filter(
d=>(u.has(d.thread)||!e.thread)&&d.at>=i&&d.at<=c)}),a=-1,l=z(t,{titles:r,label:"events",count:()=>s().length,show:(i,c)=>{let u=s()[c];i.setAttribute("aria-sel\
ected",String(c===a)),i.replaceChildren(R(o.format.moment(u.at),"number start"),Tt(n.threads[u.thread].name),R(u.text,"name"))},press:i=>{a=i;let c=e.to-e.from,
{at:u}=s()[i];o.change({from:u-c/2,to:u+c/2})}});return()=>l.draw()}};var Te={name:"flame",title:"flame graph",start(o,t){let e,n=0,r=-1,s=[],a=new Z,l=y("p",{class:"bar",role:"status"}),i=y("canvas",{tabindex:"0",role:"applicatio\
n","aria-label":"flame graph: use arrows to select and Enter to zoom. The call tree shows the same data as a table"}),c=y("div",{id:"flame-space"}),u=y("div",{id:"\
flame-pane"},c,i);t.replaceChildren(l,u);let d=(m,b)=>{let g=m.func(b),A=[g<0?"all":o.fullName(g),`total ${o.format.time(m.total(b))}, ${I(m.total(b),m.time)}`];
return g>=0&&A.push(`self ${o.format.time(m.self(b))}`,F(m.calls(b),"call")),A},h=m=>{let b=Math.floor((m.offsetY+u.scrollTop)/17);return s.find(g=>g.depth===b&&
m.offsetX>=g.x&&m.offsetX<g.x+g.width)?.node??-1},f=m=>{n=m===n?0:m,r=m,o.change(e.func(m)<0?{}:{func:e.func(m)})},p=m=>{let{g:b,width:g,height:A,scale:v}=_(i,!1),
x=o.matching(),M=u.scrollTop,{theme:k}=o;s=ne(m,n,g),c.style.height=(s.reduce((T,P)=>Math.max(T,P.depth),0)+1)*17+"px",a.resize(i.width,i.height),a.data.fill(k.
pixel.back);let S=s.filter(T=>T.depth*17-M>-17&&T.depth*17-M<A),w=T=>m.func(T.node)<0||!!x&&!x[m.func(T.node)];for(let T of S){let P=Math.round((T.depth*17-M)*v),
N=Math.round(T.x*v),$=Math.round((T.x+T.width)*v);a.fill(w(T)?k.pixel.dim:k.functions[m.func(T.node)],N,P,Math.max($-N-($-N>2?1:0),1),Math.round(17*v)-1)}a.put(
b);for(let T of S){let P=T.depth*17-M;b.globalAlpha=T.faint?.6:1,T.width>24&&(b.fillStyle=w(T)?k.css.text:k.css.onColor,b.fillText(K(b,m.func(T.node)<0?"all":o.
shortName(m.func(T.node)),T.width-7),T.x+3,P+17/2)),T.node===r&&(b.strokeStyle=k.css.text,b.lineWidth=2,b.strokeRect(T.x+1,P+1,Math.max(T.width-3,1),14))}b.globalAlpha=
1};return i.addEventListener("pointermove",m=>{let b=h(m);i.style.cursor=b>=0?"pointer":"",e&&b>=0?H(m,...d(e,b)):H(m)}),i.addEventListener("pointerleave",m=>H(
m)),i.addEventListener("click",m=>{h(m)>=0&&f(h(m))}),i.addEventListener("dblclick",m=>{e&&h(m)>0&&o.pickFunction(e.func(h(m)))}),i.addEventListener("keydown",m=>{
if(!e||m.ctrlKey||m.metaKey||m.altKey)return;let b=r>=0?r:n,g=e,v={ArrowUp:()=>g.parent(b),ArrowDown:()=>g.children(b)[0]??-1,ArrowLeft:()=>g.beside(b,-1),ArrowRight:()=>g.
beside(b,1)}[m.key];if(v){r=v()<0?b:v();let x=g.depth(r)*17;(x<u.scrollTop||x+17>u.scrollTop+u.clientHeight)&&(u.scrollTop=x-u.clientHeight/2),o.change(g.func(r)<
0?{}:{func:g.func(r)})}else if(m.key==="Enter")f(b);else return;m.preventDefault()}),u.addEventListener("scroll",()=>o.change({})),new ResizeObserver(()=>o.change(
{})).observe(u),()=>{let m=o.summed.get()?.paths;if(!m)return;e!==m&&([e,n,r]=[m,0,-1]);let b=o.matching(),g=r>0?`${o.shortName(m.func(r))} ${d(m,r).slice(1).join(
", ")}`:"click to zoom, double-click to show the function";l.textContent=[`${o.where()}: ${o.format.time(m.time)} in calls${o.ofPart()}`,b&&`${I(m.matched(b),m.
time)} in matching functions`,g].filter(A=>A).join("; "),p(m),Object.assign(i.dataset,{boxes:s.length,cursor:r,top:n,func:r<0?-1:m.func(r)})}}};var jt=(o,t)=>t.counted&&t.counted===t.calls?"-":o.format.time(t.total),at=(o,t)=>t.timed===0&&!t.open?"-":o.format.time(t.self),Vt=(o,t,e)=>at(o,t)==="-"?"-":I(
t.self,e),Wt=o=>o.allCalls===void 0?"-":(o.estimated?"~":"")+E(o.allCalls),Bt=(o,t)=>t.allCalls===void 0||t.timeless?"-":(t.allCalls>t.calls-(t.open??0)?"~":"")+
o.format.time(t.allTotal),Ae={name:"functions",title:"functions",start(o,t){let{state:e,meta:n}=o,r={name:"self",down:!0},s=[["name","function"],["calls","calls"],
["total","total"],["self","self"]];n.offCPU&&n.octaves&&s.push(["cpu","self on CPU"]),s.push(["max","longest"]),n.limited&&s.push(["allCalls","all calls"],["all\
Total","all total"]);let a=s.map(([d,h])=>j(h,d==="name"?"name":"number",()=>{Object.assign(r,r.name===d?{down:!r.down}:{name:d,down:d!=="name"}),o.change({})})),
l=y("p",{class:"bar"});t.append(l);let i=o.functionSums(),c=X(()=>JSON.stringify([e.thread,e.selection,e.query,r,!!i,o.summed.current]),()=>{let d=o.matching(),
{rank:h}=o,f=[],p=i;if(!p)return f;let m=b=>r.name==="name"?0:p.of(b)[r.name]??0;return n.functions.forEach((b,g)=>{(p.of(g).allCalls||p.of(g).calls)>0&&(!d||d[g])&&
f.push(g)}),f.sort((b,g)=>m(b)-m(g)||h[b]-h[g]),r.down?f.reverse():f}),u=z(t,{titles:[...a.slice(0,4),j("share","number narrow"),...a.slice(4)],label:"functions",
count:()=>c().length,show:(d,h)=>{let f=c()[h],p=i.of(f),m=i.time;d.setAttribute("aria-selected",String(f===e.func)),d.replaceChildren(Y(o,f),R(E(p.calls),"numb\
er"),R(jt(o,p),"number"),R(at(o,p),"number"),At(Vt(o,p,m),m>0?p.self/m:0),...n.offCPU&&n.octaves?[R(p.cpu===void 0||at(o,p)==="-"?"-":o.format.time(p.cpu),"numb\
er")]:[],R(p.timed===0?"-":o.format.time(p.max),"number"),...n.limited?[Wt(p),Bt(o,p)].map(b=>R(b,"number")):[])},press:d=>o.change({func:c()[d]}),key:(d,h)=>{d.
key==="Enter"&&o.pickFunction(c()[h])}});return t.addEventListener("dblclick",d=>{d.target.closest(".space")&&o.pickFunction(e.func)}),()=>{i=o.functionSums();let d=[
n.left&&"calls that are not in the page",n.pruned&&"calls that the recorder dropped",n.counted&&"calls that were only counted"].filter(h=>h).join(" and ");l.hidden=
!d,d&&(l.textContent=o.where()+(o.isWhole?`: all calls, including ${d}`:o.ofPart())),a.forEach((h,f)=>St(h,s[f][0]===r.name,r.down)),u.draw()}}},Se=o=>o?F(o,"ca\
ll"):"no calls";var Ee={name:"function",title:"function",start(o,t,e){let n="";return t.tabIndex=0,()=>{let{state:r}=o;r.func>=0&&o.details.get();let s=JSON.stringify([r.func,r.
thread,r.selection,r.call,o.isDark,o.details.current,!!o.functionSums(),o.summed.current]);n!==s&&(n=s,dn(o,t,e))}}};function it(o,t){let e=o.map((r,s)=>y("th",
{scope:"col",class:s?"":"name"},r)),n=t.map(([r,...s])=>y("tr",{},y("td",{class:"name"},r),...s.map(a=>y("td",{},a))));return y("div",{class:"wide",tabindex:"0"},
y("table",{},y("thead",{},y("tr",{},...e)),y("tbody",{},...n)))}function dn(o,t,e){let n=o.state.func,{format:r,meta:s}=o;if(n<0){t.replaceChildren(y("p",{class:"\
empty"},"Select a call or a function in another view."));return}let a=o.details.get(),l=o.functionSums();if(!a||a.func!==n||!l)return;let i=s.functions[n],c=l.of(
n),u=o.isWhole?i.all:null,d=a.calls-a.open,h=u?u.timed:d,f=u?u.open:a.open,p=u?u.calls:a.calls,m=y("div",{},y("h2",{},i.short.slice(0,500))),b=k=>m.append(y("p",
{class:"faint"},k));i.short!==i.name&&m.append(y("p",{class:"full"},i.name)),i.file&&b(`${i.file}:${i.line}`);let g=u&&p!==a.calls?`, ${E(a.calls)} of them in t\
he page`:u?"":o.ofPart();if(m.append(y("p",{},`${Se(p)} in ${o.where()}${g}`),et("list the calls","show them in the table, longest first",()=>o.listCalls(n))),p){
let k=u?u.quantiles:a.quantiles;if(m.append(it(["total","self","share of all","shortest","median","p90","p99","p99.9","longest"],[[jt(o,c),at(o,c),Vt(o,c,l.time),
...h?k.map(S=>r.time(S)):[]]])),u&&s.offCPU){let S=["self on CPU","blocked","in the run queue"],w=[u.cpu,u.blocked,u.queued];u.recorder&&(S.push("waiting for th\
e recorder"),w.push(u.recorder)),m.append(it(S,[w.map(T=>r.time(T))]))}f&&b(`${E(f)} still open at the end: not in percentiles and histogram`),u?.pruned&&b(`${E(
u.pruned)} dropped by the recorder: included only in the number of calls and the total time`),u?.counted&&b(`${E(u.counted)} only counted: included only in the \
number of calls`)}u&&s.limited&&m.append(it(["all calls","±","all total","±"],[[Wt(u),E(u.callsMargin),Bt(o,u),u.timeless?"-":r.time(u.totalMargin)]])),h&&m.append(
y("h3",{},"durations"),un(o,n,u&&h!==d?u.bins:a.bins));let A=s.left?" (calls in the page)":"",v=k=>k.map(({func:S,calls:w,total:T})=>[S<0?"(outermost)":cn(o,S),
E(w),r.time(T)]);a.callers.length&&m.append(y("h3",{},"called from"+A),it(["function","calls","total"],v(a.callers))),a.callees.length&&m.append(y("h3",{},"call\
s"+A),it(["function","calls","total"],v(a.callees))),i.source&&m.append(y("h3",{},"source"),y("pre",{tabindex:"0","aria-label":"source"},i.source));let x=y("div",
{}),{call:M}=o.state;M>=0&&o.calls.func[M]===n&&x.append(y("h3",{},"selected call"),Ce(o,e,M,!0)),a.slowest.length&&x.append(y("h3",{},"slowest calls")),a.slowest.
forEach((k,S)=>x.append(Ce(o,e,k,S===0))),t.replaceChildren(y("div",{class:"columns"},m,x))}var cn=(o,t)=>y("button",{type:"button",class:"link",title:o.fullName(
t),onclick:()=>o.pickFunction(t)},y("bdi",{},o.shortName(t)));function un(o,t,e){let n=Math.max(...e.map(a=>a.n)),{format:r}=o,s=y("div",{class:"histogram",role:"\
group","aria-label":"durations"});for(let{from:a,to:l,n:i}of e){let c=y("span",{class:"fill"});c.style.width=i?Math.max(100*i/n,.5)+"%":"0",s.append(y("button",
{type:"button",title:"list these calls",onclick:()=>o.listCalls(t,{min:r.exact(a),max:r.exact(l)})},y("span",{class:"range"},`${r.time(a)} to ${r.time(l)}`),y("\
span",{class:"count"},E(i)),y("span",{class:"track","aria-hidden":"true"},c)))}return s}function Ce(o,t,e,n){let{calls:r,format:s}=o,a=y("summary",{},`${o.showDuration(
e)} at ${s.moment(r.start[e])} on `,y("bdi",{},r.threadOf(e).name)),l=y("details",n?{open:""}:{},a),i=()=>{if(l.childElementCount>1)return;let c=y("tbody");for(let{
call:h,depth:f}of re(r,e)){let p=y("td",{class:"name",title:o.fullName(r.func[h])},y("bdi",{},o.nameOf(h)));p.style.paddingLeft=6+f*14+"px";let m=y("td",{class:"\
share"},I(r.duration[h],r.duration[e]));m.style.setProperty("--share",100*r.duration[h]/r.duration[e]+"%"),c.append(y("tr",{},p,y("td",{},o.showDuration(h)),y("\
td",{},s.time(r.selfOf(h))),m))}let u=["function","total","self","share"].map((h,f)=>y("th",{scope:"col",class:f?"":"name"},h));l.append(et("show in the timelin\
e","",()=>{t.reveal(e),o.choose(e,!0)}));let d=o.selfParts(e);d&&l.append(y("p",{class:"faint"},"self: "+d)),l.append(y("div",{class:"wide",tabindex:"0"},y("tab\
le",{},y("thead",{},y("tr",{},...u)),c)))};return l.addEventListener("toggle",i),n&&i(),l}var Le={name:"tree",title:"call tree",start(o,t){let e=y("p",{class:"bar"}),n=new Set;t.replaceChildren(e);let r,s=[],a=[["name","function"],["number","total"],
["number narrow","share"],["number","self"],["number","calls"]].map(([u,d])=>j(d,u)),l=u=>{s=[];let d=u.children(0).reverse();for(let h=d.pop();h!==void 0;h=d.pop())
s.push(h),n.has(h)&&d.push(...u.children(h).reverse())},i=(u,d,h)=>{h?n.add(d):n.delete(d),l(u)},c=z(t,{titles:a,label:"call tree",role:"treegrid",count:()=>s.length,
show:(u,d)=>{let h=r,f=s[d],p=h.children(f).length>0,m=n.has(f),b=y("span",{class:"twist","aria-hidden":"true",onclick:A=>{A.stopPropagation(),i(h,f,!m),o.change(
{})}},p?m?"▾":"▸":""),g=Y(o,h.func(f),b);g.style.paddingLeft=Math.min(h.depth(f)-1,30)*14+"px",u.setAttribute("aria-level",String(h.depth(f))),u.setAttribute(
"aria-selected",String(h.func(f)===o.state.func)),p?u.setAttribute("aria-expanded",String(m)):u.removeAttribute("aria-expanded"),u.replaceChildren(g,R(o.format.
time(h.total(f)),"number"),At(I(h.total(f),h.time),h.total(f)/Math.max(h.time,1)),R(o.format.time(h.self(f)),"number"),R(E(h.calls(f)),"number"))},press:u=>o.change(
{func:r.func(s[u])}),key:(u,d)=>{let h=r,f=s[d];if(u.key==="ArrowRight")i(h,f,!0);else if(u.key==="ArrowLeft"&&n.has(f))i(h,f,!1);else if(u.key==="ArrowLeft"&&h.
parent(f)>0)c.reach(s.indexOf(h.parent(f)));else if(u.key==="Enter")o.pickFunction(h.func(f));else return;u.preventDefault(),o.change({})}});return()=>{let u=o.
summed.get()?.paths;if(u){if(r!==u){r=u,n.clear();for(let d=u.children(0)[0];d!==void 0&&u.depth(d)<50;d=u.children(d)[0])n.add(d);l(u)}e.textContent=`${o.where()}\
: ${o.format.time(u.time)} in calls${o.ofPart()}`,c.draw()}}}};var zt=[Me,Ae,Te,Le,Ee,ke];function Pe(o){let t=null,e=async n=>{if("load"in n){let{meta:s,calls:a}=await xe(n.load),{func:l,start:i,duration:c,depth:u,ends:d}=a;return t=new gt(a,s),{meta:s,
threads:a.threads,length:a.length,rank:t.rank.slice(),columns:{func:l.slice(),start:i.slice(),duration:c.slice(),depth:u.slice(),ends:d.slice()},rows:{order:a.rows.
order.slice(),from:a.rows.from.slice()},waits:a.waits}}return t[n.name].apply(t,n.args)};o.onmessage=n=>{e(n.data).then(r=>o.postMessage({id:n.data.id,value:r},
"load"in n.data?hn(r):Ct(r)),r=>o.postMessage({id:n.data.id,error:String(r)},[]))}}var hn=o=>[...Ct(o.columns),...Ct(o.rows),o.rank.buffer];function Ct(o){return ArrayBuffer.
isView(o)?[o.buffer]:typeof o!="object"||o===null?[]:Object.values(o).flatMap(Ct)}async function mn(o){let t=Object.fromEntries(we.map(i=>{let c=C(i),u=c.textContent;return c.remove(),[i,u]})),e=new Mt(o),{loaded:n,calls:r}=await e.load(t),{meta:s}=n,
a=new q(s,r,e,n.rank,zt.map(i=>i.name));a.readFragment(),document.documentElement.className=a.isDark?"dark":"light";let l=new tt(a);return de(a,l),fe(a,l),ve(a,
l),me(a,l,zt),pe(a),C("summary").textContent=[r.n||s.left?`${s.left?`the longest ${E(r.n)} of ${F(r.n+s.left,"call")}`:F(r.n,"call")} of ${F(s.functions.length,
"function")} on ${F(r.threads.filter(i=>i.calls).length,"thread")} in ${a.format.time(r.length)}`:s.counted?`no calls: ${E(s.counted)} were only counted; see th\
e functions view`:"no calls: none were recorded or selected",...s.epoch?["from "+a.format.date(0)]:[],...s.notes].join("; "),a.drawAll(),a.writeFragment(),document.
body.dataset.ready=String(Math.round(performance.now())),{page:a,timeline:l}}var Xt=null;typeof document>"u"?Pe(self):(Xt=mn(document.currentScript.textContent),
Xt.catch(o=>{C("summary").textContent="The page cannot show the trace: "+o.message+". It needs a browser from 2023 or later."}));return He(fn);})();
